package clickhouse

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile makes a file without a name in memory.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("clickhouse-insert", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory file: %w", err)
	}
	return os.NewFile(uintptr(fd), "memory"), nil
}

package child

import (
	"bytes"
	"fmt"
	"os"
)

// Stopped tells whether a signal has stopped a process (SIGSTOP).
func Stopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") ")) // its name may hold anything
	return ok && bytes.HasPrefix(rest, []byte("T"))
}

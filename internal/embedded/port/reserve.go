package port

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The ports of Reserve lie below the range that systems take the ports of
// outgoing connections from, so that none of those is in the way when a server
// comes back after a restart.
const (
	lowest  = 15_000
	highest = 31_999
)

// reserved holds the locks of what this process has reserved: a file that
// nothing refers to would be closed, and its lock with it.
var reserved struct {
	mu    sync.Mutex
	files []*os.File
}

// Reserve returns n loopback addresses that nobody listens on, and that no other
// call returns, in this process or another one, before this process ends. It is
// for tests, which start servers anew where they were. Any number of goroutines
// may call it.
func Reserve(n int) ([]string, error) {
	dir := filepath.Join(os.TempDir(), "millrace-ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	found := make([]string, 0, n)
	for range 1000 + 100*n {
		number := strconv.Itoa(lowest + rand.IntN(highest-lowest+1))
		f, err := os.OpenFile(filepath.Join(dir, number), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		address := "127.0.0.1:" + number
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !free(address) {
			f.Close()
			continue
		}
		reserved.mu.Lock()
		reserved.files = append(reserved.files, f)
		reserved.mu.Unlock()
		if found = append(found, address); len(found) == n {
			return found, nil
		}
	}
	return nil, fmt.Errorf("only %d of %d ports are free between %d and %d", len(found), n, lowest, highest)
}

func free(address string) bool {
	_, err := Try(address)
	return err == nil
}

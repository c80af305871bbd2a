//go:build unix

package spool

import (
	"errors"
	"os"
	"syscall"
)

// lock holds a file for this process until it ends or unlocks it.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another process has it open: give each process a folder of its own")
		}
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

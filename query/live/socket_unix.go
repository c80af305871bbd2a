//go:build unix

package live

import (
	"errors"
	"syscall"
)

// try writes as much as there is room for, without waiting.
func try(raw syscall.RawConn, p []byte) (n int, err error) {
	if raw == nil {
		return 0, nil
	}
	closed := raw.Write(func(fd uintptr) bool {
		for {
			n, err = syscall.Write(int(fd), p)
			if !errors.Is(err, syscall.EINTR) {
				return true
			}
		}
	})
	if errors.Is(err, syscall.EAGAIN) {
		err = nil
	}
	return max(n, 0), errors.Join(closed, err)
}

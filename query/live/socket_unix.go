//go:build unix

package live

import (
	"errors"
	"syscall"
)

// attempt writes without waiting. It is kept for the next write, which then allocates
// nothing: thousands of readers are written to several times a second.
type attempt struct {
	try  func(fd uintptr) // made of the fields below
	data []byte
	n    int
	err  error
}

// write writes as much as there is room for. Nobody else may write meanwhile.
func (a *attempt) write(raw syscall.RawConn, p []byte) (n int, err error) {
	if raw == nil {
		return 0, nil
	}
	if a.try == nil {
		a.try = a.once
	}
	a.data, a.n, a.err = p, 0, nil
	// Write of a RawConn would make ready to wait for room, too.
	closed := raw.Control(a.try)
	a.data = nil
	if errors.Is(a.err, syscall.EAGAIN) {
		a.err = nil
	}
	return max(a.n, 0), errors.Join(closed, a.err)
}

func (a *attempt) once(fd uintptr) {
	for {
		if a.n, a.err = syscall.Write(int(fd), a.data); !errors.Is(a.err, syscall.EINTR) {
			return
		}
	}
}

package clickhouse

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
)

// failing is a listener that fails with one error after the other.
type failing struct {
	net.Listener
	errs []error
}

func (l *failing) Accept() (net.Conn, error) {
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: err}
}

// TestNoFilesLeft: a process that has no files left for a moment goes on serving.
func TestNoFilesLeft(t *testing.T) {
	l := &failing{errs: []error{
		os.NewSyscallError("accept4", syscall.EMFILE),
		os.NewSyscallError("accept4", syscall.ENFILE), net.ErrClosed,
	}}
	s := &Server{log: slog.New(slog.DiscardHandler)}
	if err := s.accept(t.Context(), l); !errors.Is(err, net.ErrClosed) || len(l.errs) > 0 {
		t.Errorf("accept = %v, %d errors are left", err, len(l.errs))
	}
}

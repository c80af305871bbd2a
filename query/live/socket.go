package live

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// socket is the connection below a WebSocket. Its Write does not wait for the
// reader: what there is no room for is kept, and nothing else is sent before
// flush has sent that. It is safe for concurrent use.
type socket struct {
	net.Conn
	raw    syscall.RawConn // nil: all that is written waits for flush
	behind func()          // is told when there is something to flush

	mu       sync.Mutex
	rest     []byte
	flushing bool // or it has failed
	attempt  attempt
}

func newSocket(c net.Conn, behind func()) *socket {
	s := &socket{Conn: c, behind: behind}
	for {
		switch at := c.(type) {
		case *tls.Conn:
			return s // what is below it must not be written to
		case syscall.Conn:
			s.raw, _ = at.SyscallConn() // after an error flush does it all
			return s
		case interface{ NetConn() net.Conn }:
			c = at.NetConn()
		default:
			return s
		}
	}
}

// maxBehind bounds what a reader is to be told besides a message that it has not
// taken: pings, and answers to its own.
const maxBehind = 4 << 10

var errBehind = errors.New("the reader does not take what it is sent")

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	if !s.late() {
		var err error
		if n, err = s.attempt.write(s.raw, p); err != nil {
			return n, err
		}
	} else if len(s.rest)+len(p) > maxBehind {
		return 0, errBehind
	}
	if n < len(p) {
		s.rest = append(s.rest, p[n:]...)
		s.behind()
	}
	return len(p), nil
}

// late tells whether something has yet to be sent. The lock is held.
func (s *socket) late() bool { return s.flushing || len(s.rest) > 0 }

// isLate tells whether something has yet to be sent.
func (s *socket) isLate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late()
}

// flush sends what is kept. It has to be called by one goroutine at a time.
func (s *socket) flush(patience time.Duration) error {
	for {
		s.mu.Lock()
		rest := s.rest
		s.rest, s.flushing = nil, len(rest) > 0
		s.mu.Unlock()
		if len(rest) == 0 {
			return nil
		}
		if err := s.Conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := s.Conn.Write(rest); err != nil {
			return err
		}
		if err := s.Conn.SetWriteDeadline(time.Time{}); err != nil {
			return err
		}
	}
}

// SetWriteDeadline implements net.Conn. A write does not wait, and flush has a
// deadline of its own.
func (*socket) SetWriteDeadline(time.Time) error { return nil }

// hijacker has a WebSocket that a request becomes use a socket.
type hijacker struct {
	http.ResponseWriter
	behind func()
	socket *socket
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.socket = newSocket(conn, h.behind)
	return h.socket, buffered, nil
}

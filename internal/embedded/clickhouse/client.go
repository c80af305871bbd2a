package clickhouse

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// keepAlive has a client that is gone without a word noticed within 30 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// originOf is a login from a client's address.
func originOf(who account, login, remote string) origin {
	addr, _, err := net.SplitHostPort(remote)
	if err != nil {
		addr = remote
	}
	return origin{who: who, login: login, addr: addr}
}

// deadlineWriter gives up on a client that does not read.
type deadlineWriter struct {
	net.Conn
	each time.Duration // that the client has for each part
	left time.Duration // that it has for all once it has to hurry

	mu    sync.Mutex
	last  time.Time // that the client has for all; zero: no such time
	turns int       // how often there was a new statement
}

func (w *deadlineWriter) Write(p []byte) (int, error) {
	if err := w.deadline(); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

func (w *deadlineWriter) deadline() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Add(w.each)
	if !w.last.IsZero() && w.last.Before(at) {
		at = w.last
	}
	return w.SetWriteDeadline(at)
}

// begin is for a new statement. It returns what leaves the client little time to
// read, from each call on, once the statement is cancelled; it has no effect on
// later statements.
func (w *deadlineWriter) begin() (hurry func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Time{}
	w.turns++
	turn := w.turns
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.turns == turn {
			w.last = time.Now().Add(w.left)
			_ = w.SetWriteDeadline(w.last) // an error shows when it is written to
		}
	}
}

// linger gives a client time to read why it is disconnected: what it has sent and
// nobody has read would make closing throw the answer away.
func linger(client net.Conn) {
	half, ok := client.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || client.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, client, lingerBytes)
}

type connKey struct{}

// watchHangUp calls gone when the client of a request closes its connection,
// until stop is called. net/http notices that only as long as the client has
// sent nothing behind its request.
func watchHangUp(r *http.Request, gone func()) (stop func()) {
	client, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		look := time.NewTicker(500 * time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
			}
			if hungUp(client) {
				gone()
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

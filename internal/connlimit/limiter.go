package connlimit

import (
	"container/list"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limiter counts the connections of one server.
type Limiter struct {
	most int
	log  *slog.Logger

	mu     sync.Mutex
	open   int
	conns  *list.List // of *conn that may be replaced while they wait; the longest without a new request first
	warned time.Time  // when the log last said that there are too many

	away   map[net.Conn]struct{} // those that are being turned away; nil once the server stops
	leaves sync.WaitGroup
}

// New returns a limiter of at most so many connections.
func New(most int, log *slog.Logger) *Limiter {
	return &Limiter{most: most, log: log, conns: list.New(), away: map[net.Conn]struct{}{}}
}

// Listen returns the listener that srv is to serve. It sets srv's ConnState, and
// wraps its Handler, which has to be set, and its ConnContext.
func (l *Limiter) Listen(srv *http.Server, ln net.Listener) net.Listener {
	srv.ConnState = func(accepted net.Conn, state http.ConnState) {
		c, ok := accepted.(*conn)
		if !ok {
			return
		}
		switch state {
		case http.StateNew, http.StateIdle:
			l.idle(c)
		case http.StateHijacked, http.StateClosed:
			l.keep(c)
		case http.StateActive:
			// A request has begun to arrive. The rest of its head may never come, so that it
			// is under way only once it gets to the handler.
		}
	}
	within := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if within != nil {
			ctx = within(ctx, c)
		}
		return context.WithValue(ctx, connKey{}, c)
	}
	handler := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			handler.ServeHTTP(w, r)
			return
		}
		l.begin(c)
		if r.Body == nil || r.Body == http.NoBody {
			handler.ServeHTTP(w, r)
			return
		}
		r.Body = body{r.Body, c}
		handler.ServeHTTP(w, r)
		l.waits(c, true) // the server reads what the handler has left
	})
	return listener{ln, l}
}

// Keep has the connection of a request stay, however long its body takes: for callers that
// are trusted with that.
func Keep(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.limiter.keep(c)
	}
}

// connKey is that of a request's connection in its context.
type connKey struct{}

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept returns the next connection that there is room for.
func (l listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, replaced := l.limiter.admit(raw)
		if c == nil {
			l.limiter.turnAway(raw)
			continue
		}
		if replaced != nil {
			_ = replaced.Close() // its server notices by itself
		}
		return c, nil
	}
}

// Close closes the listener, and the connections that are being turned away.
func (l listener) Close() error {
	err := l.Listener.Close()
	l.limiter.mu.Lock()
	for raw := range l.limiter.away {
		_ = raw.Close()
	}
	l.limiter.away = nil
	l.limiter.mu.Unlock()
	l.limiter.leaves.Wait()
	return err
}

// conn is a connection. It counts until it is closed, whoever holds it.
type conn struct {
	net.Conn
	limiter *Limiter

	// Under the lock of the limiter.
	place *list.Element // in conns; nil: it is not replaced before its next request
	waits bool          // for its client
	gone  bool          // it does not count any more
}

// NetConn is the connection itself.
func (c *conn) NetConn() net.Conn { return c.Conn }

// body is that of a request. While its handler waits for more of it, the connection may be
// replaced.
type body struct {
	io.ReadCloser
	conn *conn
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	b.conn.limiter.waits(b.conn, true)
	defer b.conn.limiter.waits(b.conn, false)
	return b.ReadCloser.Read(p)
}

// admit counts a connection. It returns the connection that has to be closed for
// it, or no connection when there is no room for the new one.
func (l *Limiter) admit(raw net.Conn) (c *conn, replaced net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most {
		l.warn()
		old := l.longestWaiting()
		if old == nil {
			return nil, nil
		}
		l.release(old)
		replaced = old.Conn
	}
	l.open++
	return &conn{Conn: raw, limiter: l}, replaced
}

// warn logs that there are too many connections, once a minute at most.
func (l *Limiter) warn() {
	if now := time.Now(); now.Sub(l.warned) > time.Minute {
		l.warned = now
		l.log.Warn("there are too many HTTP connections: new ones replace those that wait for their client",
			"most", l.most)
	}
}

// longestWaiting returns the connection that waits for its client and whose last request is
// the oldest, or nil when none waits. Sending a byte now and then does not help a client.
func (l *Limiter) longestWaiting() *conn {
	for e := l.conns.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); c.waits {
			return c
		}
	}
	return nil
}

// idle records that a connection waits for a request.
func (l *Limiter) idle(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renew(c, true)
}

// begin records that the head of a request has come.
func (l *Limiter) begin(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renew(c, false)
}

// renew moves a connection behind all others.
func (l *Limiter) renew(c *conn, waits bool) {
	l.unlist(c)
	if !c.gone {
		c.place, c.waits = l.conns.PushBack(c), waits
	}
}

// waits records whether the handler of a request waits for more of it.
func (l *Limiter) waits(c *conn, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.waits = waits
}

// keep keeps a connection until it waits for its next request.
func (l *Limiter) keep(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlist(c)
}

// release stops counting a connection. Releasing it twice is fine.
func (l *Limiter) release(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	l.open--
	l.unlist(c)
}

func (l *Limiter) unlist(c *conn) {
	if c.place != nil {
		l.conns.Remove(c.place)
		c.place = nil
	}
}

// Close closes the connection and makes room for another.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.limiter.release(c)
	return err
}

// fewFiles is how many files a process may have open where the system does not say.
const fewFiles = 1024

// Share returns a part of the files that the process may have open, at least 1
// and at most most.
func Share(part float64, most int) int { return min(max(int(part*float64(Files())), 1), most) }

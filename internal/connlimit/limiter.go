package connlimit

import (
	"cmp"
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
	silent *list.List // of *conn without a request under way, the longest first
	bodies *list.List // of *conn whose handler waits for more of the body, the longest first
	warned time.Time  // when the log last said that there are too many

	away   map[net.Conn]struct{} // those that are being turned away; nil once the server stops
	leaves sync.WaitGroup
}

// New returns a limiter of at most so many connections.
func New(most int, log *slog.Logger) *Limiter {
	return &Limiter{most: most, log: log, silent: list.New(), bodies: list.New(), away: map[net.Conn]struct{}{}}
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
			l.await(c, l.silent)
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
		l.proceed(c)
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = body{r.Body, c}
		}
		handler.ServeHTTP(w, r)
		l.await(c, l.bodies) // the server reads what the handler has left
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
	place *list.Element // in silent or bodies
	kept  bool          // it is not replaced before its next request
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
	b.conn.limiter.await(b.conn, b.conn.limiter.bodies)
	defer b.conn.limiter.proceed(b.conn)
	return b.ReadCloser.Read(p)
}

// admit counts a connection. It returns the connection that has to be closed for
// it, or no connection when there is no room for the new one.
func (l *Limiter) admit(raw net.Conn) (c *conn, replaced net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most {
		l.warn()
		longest := cmp.Or(l.silent.Front(), l.bodies.Front())
		if longest == nil {
			return nil, nil
		}
		old := longest.Value.(*conn)
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

// await records that a connection waits for its client, in one of the limiter's lists.
func (l *Limiter) await(c *conn, in *list.List) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlist(c)
	if in == l.silent {
		c.kept = false
	}
	if !c.kept && !c.gone {
		c.place = in.PushBack(c)
	}
}

// proceed records that a connection does not wait for its client.
func (l *Limiter) proceed(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlist(c)
}

// keep keeps a connection until it waits for its next request.
func (l *Limiter) keep(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlist(c)
	c.kept = true
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
		l.silent.Remove(c.place) // one of them has it
		l.bodies.Remove(c.place)
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

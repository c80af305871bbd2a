package crowd

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Crowd is the connections of one server.
type Crowd struct {
	most int
	log  *slog.Logger

	mu      sync.Mutex
	open    int
	waiting *list.List // of *guest without a request under way, the longest first
	told    time.Time  // when the log last said that there are too many
}

// New returns a crowd of at most so many connections.
func New(most int, log *slog.Logger) *Crowd {
	return &Crowd{most: most, log: log, waiting: list.New()}
}

// Listen returns the listener that srv is to serve. It takes srv's ConnState.
func (c *Crowd) Listen(srv *http.Server, ln net.Listener) net.Listener {
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		if g, ok := conn.(*guest); ok {
			c.note(g, state == http.StateNew || state == http.StateIdle)
		}
	}
	return listener{ln, c}
}

type listener struct {
	net.Listener
	crowd *Crowd
}

// Accept returns the next connection that there is room for.
func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g, gone := l.crowd.admit(conn)
		if gone != nil {
			_ = gone.Close() // a server notices by itself
		}
		if g != nil {
			return g, nil
		}
	}
}

// guest is a connection. It counts until it is closed, whoever has it.
type guest struct {
	net.Conn
	crowd *Crowd
	place *list.Element // while it waits for a request
	left  bool
}

// admit counts a connection. It returns the one that has to go for it, which
// may be itself.
func (c *Crowd) admit(conn net.Conn) (g *guest, gone net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		c.tell()
		longest := c.waiting.Front()
		if longest == nil {
			return nil, conn
		}
		old := longest.Value.(*guest)
		c.leave(old)
		gone = old.Conn
	}
	c.open++
	return &guest{Conn: conn, crowd: c}, gone
}

// tell logs that there are too many, now and then.
func (c *Crowd) tell() {
	if now := time.Now(); now.Sub(c.told) > time.Minute {
		c.told = now
		c.log.Warn("there are too many HTTP connections: those that wait for a request give way", "most", c.most)
	}
}

// note is told whether a connection waits for a request.
func (c *Crowd) note(g *guest, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.place != nil {
		c.waiting.Remove(g.place)
		g.place = nil
	}
	if waits && !g.left {
		g.place = c.waiting.PushBack(g)
	}
}

// leave stops counting a connection. It may have left before.
func (c *Crowd) leave(g *guest) {
	if g.left {
		return
	}
	g.left = true
	c.open--
	if g.place != nil {
		c.waiting.Remove(g.place)
		g.place = nil
	}
}

// Close closes the connection and makes room for another.
func (g *guest) Close() error {
	err := g.Conn.Close()
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.crowd.leave(g)
	return err
}

// fewFiles is how many files a process may have open where nothing says so.
const fewFiles = 1024

// Share returns a part of the files that the process may have open, and no more
// than most.
func Share(part float64, most int) int { return min(max(int(part*float64(Files())), 1), most) }

package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

const (
	handshakeTime = 10 * time.Second
	sendTime      = 5 * time.Minute // a client that reads nothing for that long is gone
	bodyTime      = time.Minute     // for an analyst's query over HTTP
	idleTime      = 2 * time.Minute // between two requests over HTTP
)

// conn is a client of the native protocol. Its goroutine reads and writes; while
// a query runs, a second one watches for the client's cancel or end.
type conn struct {
	server *Server
	net    net.Conn
	log    *slog.Logger
	in     *native.Reader
	out    *native.Writer
	sess   session
	since  time.Time
	who    account // the server's mutex guards it

	mu       sync.Mutex
	idle     bool // waiting for a query
	draining bool
}

func newConn(s *Server, client net.Conn) *conn {
	return &conn{
		server: s, net: client, since: time.Now(), log: s.log.With("client", client.RemoteAddr().String()),
		in: native.NewReader(client), out: native.NewWriter(deadlineWriter{client}),
	}
}

// deadlineWriter gives up on a client that does not read.
type deadlineWriter struct{ net.Conn }

func (w deadlineWriter) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

func (c *conn) serve(ctx context.Context) {
	defer c.net.Close()
	if err := c.handshake(); err != nil {
		c.log.Warn("ClickHouse client did not get in", "error", err)
		return
	}
	defer c.sess.close()
	if err := c.packets(ctx); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.log.Warn("ClickHouse client is disconnected", "error", err)
	}
}

func (c *conn) handshake() error {
	if err := c.net.SetReadDeadline(time.Now().Add(handshakeTime)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	hello, err := c.in.ReadHello()
	if errors.Is(err, native.ErrRevision) {
		return errors.Join(err, c.exception(exception(codeNotImplemented, "NOT_IMPLEMENTED", "%v", err)))
	}
	if err != nil {
		return err
	}
	who, err := c.server.login(hello.User, hello.Password)
	if err == nil && !c.server.greet(c, who) {
		err = exception(codeTooMany, "TOO_MANY_SIMULTANEOUS_QUERIES", "There are too many connections of %s", hello.User)
	}
	if err == nil {
		c.sess, err = c.server.openSession(who, hello.Database)
	}
	if err != nil {
		return errors.Join(err, c.exception(err))
	}
	e := c.server.engine
	err = c.out.Hello(native.Identity{
		Name: "ClickHouse", DisplayName: "millrace", TimeZone: e.timezone,
		Major: e.version[0], Minor: e.version[1], Patch: e.version[2],
	})
	if err == nil {
		err = c.out.Flush()
	}
	if err != nil {
		c.sess.close()
		return err
	}
	return c.net.SetReadDeadline(time.Time{})
}

// packets serves queries and pings until the client or the server ends, which
// is [io.EOF].
func (c *conn) packets(ctx context.Context) error {
	for {
		code, err := c.wait()
		if err != nil {
			return err
		}
		switch code {
		case native.ClientPing:
			err = c.out.Pong()
		case native.ClientQuery:
			err = c.query(ctx)
		case native.ClientCancel: // came too late
		default:
			return fmt.Errorf("%w: packet %d", native.ErrProtocol, code)
		}
		if err == nil {
			err = c.out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// wait reads the next packet's code; [io.EOF] is the end.
func (c *conn) wait() (uint64, error) {
	if !c.setIdle(true) {
		return 0, io.EOF
	}
	code, err := c.in.Packet()
	if !c.setIdle(false) && err != nil {
		return 0, io.EOF
	}
	return code, err
}

// setIdle tells whether the connection goes on.
func (c *conn) setIdle(idle bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = idle
	return !c.draining
}

// drain ends the connection once it is idle.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	if c.idle {
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
	}
}

// exception answers with err.
func (c *conn) exception(err error) error {
	e := asException(err)
	message := "DB::Exception: " + e.Message
	if e.Name != "" {
		message += " (" + e.Name + ")"
	}
	if err := c.out.Exception(e.Code, message); err != nil {
		return err
	}
	return c.out.Flush()
}

// watch calls cancel when the client cancels or ends, until stop is called. Only
// then may the connection be read again.
func (c *conn) watch(cancel func()) (stop func() (cancelled bool, err error)) {
	var cancelled bool
	var lost error
	done := make(chan struct{})
	go func() {
		defer close(done)
		next, err := c.in.Peek(1)
		switch {
		case err == nil && next[0] == native.ClientCancel:
			_, _ = c.in.Discard(1)
			cancelled = true
			cancel()
		case err != nil && !isTimeout(err):
			lost = err
			cancel()
		}
	}()
	return func() (bool, error) {
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
		<-done
		_ = c.net.SetReadDeadline(time.Time{})
		return cancelled, lost
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

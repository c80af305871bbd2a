package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

const (
	handshakeTime = 10 * time.Second
	sendTime      = 5 * time.Minute // a client that reads nothing for that long is gone
	readerTime    = time.Minute     // the same for analysts
	bodyTime      = time.Minute     // for an analyst's query over HTTP
	idleTime      = 2 * time.Minute // between two requests over HTTP
	lingerTime    = 2 * time.Second // for a client to read why it is disconnected
	lingerBytes   = 64 << 20        // that it may still send meanwhile
)

// conn is a client of the native protocol. Its goroutine reads and writes; while
// a query runs, a second one watches for the client's cancel or end.
type conn struct {
	server  *Server
	net     net.Conn
	log     *slog.Logger
	in      *native.Reader
	to      *deadlineWriter // which out writes to
	out     *native.Writer
	hurry   func() // leaves the client of the current statement little time to read
	sess    session
	from    origin
	done    *tally    // of the current statement
	entry   *logEntry // of the current statement, in the query log
	who     account   // the server's mutex guards it
	peer    bool      // it is another server of the cluster
	evicted atomic.Bool

	mu       sync.Mutex
	idle     bool      // waiting for a query
	waits    time.Time // since when, or for the rest of a query; zero: it does not
	draining bool
}

func newConn(s *Server, client net.Conn) *conn {
	to := &deadlineWriter{Conn: client, each: readerTime, left: s.cfg.hurryTime()}
	return &conn{
		server: s, net: client, waits: time.Now(), log: s.log.With("client", client.RemoteAddr().String()),
		in: native.NewReader(client), to: to, out: native.NewWriter(to),
	}
}

func (c *conn) serve(ctx context.Context) {
	defer c.net.Close()
	if err := c.handshake(); err != nil {
		c.log.Warn("ClickHouse client did not get in", "error", err)
		if c.evicted.Load() {
			_ = c.explain(errTooMany()) // and no more: others need the room
			return
		}
		c.leave(err)
		return
	}
	err := c.packets(ctx)
	c.sess.close()
	switch {
	case c.evicted.Load():
		_ = c.explain(errTooMany())
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	case errors.Is(err, errStopping):
		_ = c.explain(errStops())
	default:
		c.log.Warn("ClickHouse client is disconnected", "error", err)
		c.leave(err)
	}
}

// leave tells the client why its connection ends, and gives it time to read that.
func (c *conn) leave(err error) {
	if e := reason(err); e == nil || c.explain(e) == nil {
		linger(c.net)
	}
}

// explain sends the last packet of a connection.
func (c *conn) explain(err error) error {
	c.to.each = lingerTime
	if errors.Is(err, native.ErrHTTP) {
		_, err := io.WriteString(c.to, plainHTTP)
		return err
	}
	return c.exception(err)
}

// plainHTTP answers a client that takes the native port for the one of HTTP.
const plainHTTP = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=UTF-8\r\n\r\n" +
	"This port is for ClickHouse's native protocol. HTTP has a port of its own.\n"

// reason is what a client is told when err ends its connection. It is nil when the
// client itself has gone.
func reason(err error) error {
	var known *chdb.Exception
	var network *net.OpError
	switch {
	case errors.As(err, &known), errors.Is(err, native.ErrHTTP):
		return err
	case errors.Is(err, native.ErrRevision), errors.Is(err, native.ErrType):
		return exception(codeNotImplemented, "NOT_IMPLEMENTED", "%v", err)
	case errors.As(err, &network) && network.Op == "read" && network.Timeout():
		return exception(codeTimeout, "TIMEOUT_EXCEEDED", "The client did not send in time what had to come: %v", err)
	case errors.As(err, &network), errors.Is(err, io.EOF):
		return nil
	}
	return exception(codeIncorrectData, "INCORRECT_DATA", "Cannot read what the client has sent: %v", err)
}

func errTooMany() error {
	return exception(codeTooMany, "TOO_MANY_SIMULTANEOUS_QUERIES", "There are too many connections")
}

func errStops() error { return exception(codeAborted, "ABORTED", "The server stops") }

func (c *conn) handshake() error {
	if err := c.net.SetReadDeadline(time.Now().Add(handshakeTime)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	hello, err := c.in.ReadHello()
	if err != nil {
		return err
	}
	who, err := c.server.login(hello.User, hello.Password)
	if err == nil && !c.server.greet(c, who) {
		err = exception(codeTooMany, "TOO_MANY_SIMULTANEOUS_QUERIES", "There are too many connections of %s",
			hello.User)
	}
	if err == nil {
		if who == writer {
			c.to.each = sendTime
		}
		c.from = originOf(who, hello.User, c.net.RemoteAddr().String())
		c.sess, err = c.server.openSession(c.from, hello.Database)
	}
	if err != nil {
		return err
	}
	e := c.server.engine
	id := native.Identity{
		Name: "ClickHouse", DisplayName: e.name, TimeZone: e.timezone,
		Major: e.version[0], Minor: e.version[1], Patch: e.version[2],
	}
	if c.peer = who == writer && c.server.cfg.Cluster.admits(hello.Client, c.net.RemoteAddr()); c.peer {
		c.in.Peer()
		id.Revision = native.PeerRevision
	}
	err = c.out.Hello(id, hello)
	if err == nil {
		err = c.out.Flush()
	}
	if err == nil {
		err = c.in.ReadAddendum()
	}
	if err != nil {
		c.sess.close()
		return err
	}
	return c.net.SetReadDeadline(time.Time{})
}

// packets serves queries and pings until the client ends, which is [io.EOF], or
// the server does, which is errStopping.
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
		case native.ClientTablesStatus:
			err = c.tablesStatus(ctx)
		default:
			return errPacket(code)
		}
		if err == nil {
			err = c.out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

func errPacket(code uint64) error {
	return exception(codeUnexpected, "UNEXPECTED_PACKET_FROM_CLIENT", "Unexpected packet %d from client", code)
}

// wait reads the next packet's code. Once the server stops, that is errStopping.
func (c *conn) wait() (uint64, error) {
	if !c.setIdle(true) {
		return 0, errStopping
	}
	code, err := c.in.Packet()
	if !c.setIdle(false) && isTimeout(err) {
		return 0, errStopping
	}
	return code, err
}

// evict ends a connection that waits for its client.
func (c *conn) evict() {
	c.evicted.Store(true)
	if half, ok := c.net.(interface{ CloseRead() error }); !ok || half.CloseRead() != nil {
		_ = c.net.Close()
	}
}

// setIdle tells whether the connection goes on.
func (c *conn) setIdle(idle bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle = idle; idle {
		c.waits = time.Now()
	}
	return !c.draining
}

// received notes that a query has come whole.
func (c *conn) received() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = time.Time{}
}

// waiting is since when the connection waits for its client; zero: it does not.
func (c *conn) waiting() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits
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

// exception answers with err, with which the current statement ends.
func (c *conn) exception(err error) error {
	c.entry.end(err)
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

// errUnexpected is a client that sends something else than a cancel while its
// statement runs. ch-go means a cancel by it: it sends 00 03.
var errUnexpected = exception(codeUnexpected, "UNEXPECTED_PACKET_FROM_CLIENT",
	"The query was cancelled by what the client sent while it ran")

// watch calls cancel when the client cancels, sends anything else or ends, until
// stop is called. Only then may the connection be read again.
func (c *conn) watch(ctx context.Context, cancel func()) (stop func() (cancelled bool, err error)) {
	var cancelled bool
	var lost error
	done := make(chan struct{})
	go func() {
		defer close(done)
		next, err := c.in.Peek(1)
		switch {
		case isTimeout(err):
			return
		case err != nil:
			lost = err
		case next[0] == native.ClientCancel:
			_, _ = c.in.Discard(1)
			cancelled = true
		default:
			lost = errUnexpected
		}
		cancel()
	}()
	stopHurry := context.AfterFunc(ctx, c.hurry)
	return func() (bool, error) {
		stopHurry()
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

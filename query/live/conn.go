package live

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// conn is one WebSocket. A goroutine of its own takes requests. A feed that has
// news sends them itself, to one connection after another, as far as that does
// not have to wait. For all else there is a writer, for as long as it has to do
// and to wait for a slow reader.
type conn struct {
	hub      *Hub
	ws       *websocket.Conn
	socket   *socket
	deflates bool        // messages are compressed
	caller   auth.Caller // the connection ends when its token expires
	own      string      // the caller's name
	lost     bool        // another caller has its seat; guarded by the hub's lock
	writer   task

	sending sync.Mutex // held by who sends messages
	// subs are replaced, and never changed, by who has mu. They can be read at any time.
	subs atomic.Pointer[[]*subscription]

	mu   sync.Mutex
	ping *time.Timer
	over bool // there are no more pings
}

// newConn returns a connection, for the caller of a request, that has yet to get its WebSocket.
func newConn(ctx context.Context, h *Hub) *conn {
	c := &conn{hub: h, caller: auth.CallerFrom(ctx), own: auth.CallerName(ctx)}
	c.subs.Store(new([]*subscription))
	c.writer.do = c.catchUp
	return c
}

// serve returns when the connection has ended and nothing of it is left.
func (c *conn) serve() {
	c.pingLater()
	if at := c.caller.Expires; !at.IsZero() {
		expiry := time.AfterFunc(time.Until(at), func() {
			c.end(websocket.ClosePolicyViolation,
				"the token has expired")
		})
		defer expiry.Stop()
	}
	c.read()
	c.end(websocket.CloseNormalClosure, "")
	c.stopPings()
	c.writer.end()
	for _, s := range c.subscriptions() {
		c.unsubscribe(s.id)
	}
}

// pingLater has a ping sent when it is time, and the next when that was sent. Readers
// that have come at once, as all do after a restart, are not pinged at once.
func (c *conn) pingLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if half := c.hub.cfg.PingInterval / 2; !c.over {
		c.ping = time.AfterFunc(half+rand.N(max(half, 1)), func() {
			if c.ws.WriteControl(websocket.PingMessage, nil, time.Time{}) == nil {
				c.pingLater()
			}
		})
	}
}

func (c *conn) stopPings() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.ping.Stop()
}

// end closes the connection with a status and a reason, which ends its serve.
func (c *conn) end(code int, reason string) {
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Time{})
	if c.sending.TryLock() { // else the writer waits for the reader already
		_ = c.socket.flush(time.Second)
		c.sending.Unlock()
	}
	_ = c.ws.Close()
}

// name implements reader.
func (c *conn) name() string { return c.own }

// lose implements reader. It may be called before there is a WebSocket.
func (c *conn) lose() {
	c.hub.mu.Lock()
	c.lost = true
	_, kept := c.hub.sockets[c]
	c.hub.mu.Unlock()
	if kept {
		c.endLost()
	}
}

// endLost ends a connection whose seat another caller has.
func (c *conn) endLost() {
	c.end(websocket.CloseTryAgainLater, "other callers need a connection, and you have the most")
}

// answer tells why a request was not accepted. Who does not read that is not
// read from.
func (c *conn) answer(id string, p *httpapi.Problem) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.sendProblem(id, p); err != nil {
		return err
	}
	return c.socket.flush(c.hub.cfg.WriteTimeout)
}

// catchUp is what the writer does: it sends what is new. It waits until the
// reader has taken what it was sent before, and then until it has taken this.
func (c *conn) catchUp() {
	c.sending.Lock()
	defer c.sending.Unlock()
	err := c.socket.flush(c.hub.cfg.WriteTimeout)
	if err == nil {
		err = c.sendFrames()
	}
	if err == nil {
		err = c.socket.flush(c.hub.cfg.WriteTimeout)
	}
	if err != nil {
		_ = c.socket.Close() // which ends serve
	}
}

// news implements reader. It sends what is new unless that may have to wait, and
// then leaves it to the writer.
func (c *conn) news() {
	if !c.sending.TryLock() {
		c.writer.start()
		return
	}
	defer c.sending.Unlock()
	if c.sendFrames() != nil {
		_ = c.socket.Close() // which ends serve
	}
}

// sendFrames sends each subscription the newest frame that it has not had, until
// the reader is late. The caller is the one who sends.
func (c *conn) sendFrames() error {
	for _, s := range c.subscriptions() {
		if c.socket.isLate() {
			c.writer.start() // for what is left
			return nil
		}
		if !c.has(s) {
			continue
		}
		u, news := s.next()
		if !news {
			continue
		}
		if err := c.sendUpdate(s.id, u); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) subscriptions() []*subscription { return *c.subs.Load() }

// has tells whether a subscription still is.
func (c *conn) has(s *subscription) bool { return slices.Contains(c.subscriptions(), s) }

func (c *conn) sendUpdate(id string, u update) error {
	switch {
	case u.problem != nil:
		return c.sendProblem(id, u.problem)
	case u.unchanged:
		return c.sendText(unchangedMessage(id, u.at))
	}
	return c.send(u.messages.frame(id, u.at, c.deflates))
}

func (c *conn) sendProblem(id string, p *httpapi.Problem) error {
	message, err := json.Marshal(LiveError{id, p})
	if err != nil {
		return err
	}
	return c.sendText(message)
}

func (c *conn) sendText(text []byte) error {
	return c.send(append(appendFrameHeader(nil, false, len(text)), text...))
}

// send sends a frame.
func (c *conn) send(frame []byte) error {
	_, err := c.socket.Write(frame)
	return err
}

// read takes requests until the connection ends or nothing has come for too
// long.
func (c *conn) read() {
	alive := func() { _ = c.ws.SetReadDeadline(time.Now().Add(2 * c.hub.cfg.PingInterval)) }
	c.ws.SetReadLimit(maxMessage)
	c.ws.SetPongHandler(func(string) error { alive(); return nil })
	for {
		alive()
		kind, r, err := c.ws.NextReader()
		if err != nil {
			return
		}
		data, err := io.ReadAll(io.LimitReader(r, maxMessage+1)) // what was compressed may be longer than what came
		if err != nil {
			return
		}
		if len(data) > maxMessage {
			tooBig := websocket.FormatCloseMessage(websocket.CloseMessageTooBig, "")
			_ = c.ws.WriteControl(websocket.CloseMessage, tooBig, time.Now().Add(time.Second))
			return
		}
		if c.react(kind, data) != nil {
			return
		}
	}
}

// react does what a message asks for, in a goroutine that it waits for: the stack
// that this takes would stay with a connection that says nothing more.
func (c *conn) react(kind int, data []byte) error {
	done := make(chan error)
	go func() {
		var err error
		if id, problem := c.handle(kind, data); problem != nil {
			err = c.answer(id, problem)
		}
		done <- err
	}()
	return <-done
}

// handle does what a message asks for, or says why not.
func (c *conn) handle(kind int, data []byte) (id string, p *httpapi.Problem) {
	if kind != websocket.TextMessage {
		return "", errNoJSON()
	}
	cmd, p := c.hub.views.parseCommand(data, c.caller)
	switch {
	case p != nil:
	case cmd.op == "subscribe":
		p = c.subscribe(cmd)
	case !c.unsubscribe(cmd.id):
		p = problem("there is no such subscription",
			httpapi.FieldError{Field: "id", Code: "id_unknown", Rule: "must be that of a subscription"})
	}
	return cmd.id, p
}

func (c *conn) subscribe(cmd command) *httpapi.Problem {
	p := c.add(cmd)
	if p == nil {
		c.writer.start() // the feed may have a frame already
	}
	return p
}

func (c *conn) add(cmd command) *httpapi.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(cmd.id) >= 0 {
		return problem("the id is in use",
			httpapi.FieldError{Field: "id", Code: "id_in_use", Rule: "must not be that of a subscription"})
	}
	subs := c.subscriptions()
	if len(subs) >= c.hub.cfg.Subscriptions {
		return httpapi.NewProblem(http.StatusTooManyRequests, "there are too many subscriptions on this connection")
	}
	s, p := c.hub.subscribe(c, cmd.id, cmd.wish)
	if p == nil {
		subs = append(slices.Clip(subs), s)
		c.subs.Store(&subs)
	}
	return p
}

// find returns where the subscription with an id stands, or -1. The lock is held.
func (c *conn) find(id string) int {
	return slices.IndexFunc(c.subscriptions(), func(s *subscription) bool { return s.id == id })
}

// unsubscribe tells whether there was such a subscription.
func (c *conn) unsubscribe(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.find(id)
	if i < 0 {
		return false
	}
	subs := slices.Clone(c.subscriptions())
	feed := subs[i].feed
	subs = slices.Delete(subs, i, i+1)
	c.subs.Store(&subs)
	c.hub.part(c, feed)
	return true
}

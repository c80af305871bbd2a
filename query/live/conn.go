package live

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// conn is one WebSocket. Its reader takes requests. A feed that has news sends
// them itself, to one connection after another, as far as that does not have to
// wait; the connection's writer sends all else, and waits for slow readers.
type conn struct {
	hub      *Hub
	ws       *websocket.Conn
	socket   *socket
	deflates bool        // messages are compressed
	caller   auth.Caller // the connection ends when its token expires
	wake     wake        // of the writer
	// refused holds answers to requests that were not accepted. It is short:
	// who does not read them is not read from.
	refused chan refusal

	sending sync.Mutex // held by who sends messages

	mu   sync.Mutex
	subs []*subscription // replaced, and never changed
}

type refusal struct {
	id      string
	problem *httpapi.Problem
}

// newConn returns a connection that has yet to get its WebSocket.
func newConn(h *Hub, caller auth.Caller) *conn {
	return &conn{hub: h, caller: caller, wake: newWake(), refused: make(chan refusal, 4)}
}

// serve returns when the connection has ended and nothing of it is left.
func (c *conn) serve(draining <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		c.read(ctx)
	})
	code, reason := c.write(ctx, draining)
	_ = c.ws.WriteControl(
		websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Second),
	)
	_ = c.socket.flush(time.Second)
	_ = c.ws.Close()
	cancel()
	reader.Wait()
	for _, s := range c.subs {
		c.unsubscribe(s.id)
	}
}

// expiry returns a channel that tells when the caller's token has expired.
func expiry(caller auth.Caller) (expired <-chan time.Time, stop func() bool) {
	if caller.Expires.IsZero() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(time.Until(caller.Expires))
	return timer.C, timer.Stop
}

// write sends what is new until the connection ends, and returns the status
// and the reason to close it with.
func (c *conn) write(ctx context.Context, draining <-chan struct{}) (code int, reason string) {
	expired, stop := expiry(c.caller)
	defer stop()
	ping := time.NewTicker(c.hub.cfg.PingInterval)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return websocket.CloseNormalClosure, ""
		case <-draining:
			return websocket.CloseGoingAway, ""
		case <-expired:
			return websocket.ClosePolicyViolation, "the token has expired"
		case r := <-c.refused:
			err = c.answer(r)
		case <-c.wake:
			err = c.catchUp()
		case <-ping.C:
			err = c.ws.WriteControl(websocket.PingMessage, nil, time.Time{})
		}
		if err != nil {
			return websocket.CloseGoingAway, ""
		}
	}
}

func (c *conn) answer(r refusal) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.sendProblem(r.id, r.problem); err != nil {
		return err
	}
	return c.socket.flush(c.hub.cfg.WriteTimeout)
}

// catchUp sends what is new. It waits until the reader has taken what it was sent
// before, and then until it has taken this.
func (c *conn) catchUp() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.socket.flush(c.hub.cfg.WriteTimeout); err != nil {
		return err
	}
	if err := c.sendFrames(); err != nil {
		return err
	}
	return c.socket.flush(c.hub.cfg.WriteTimeout)
}

// news implements reader. It sends what is new unless that may have to wait, and
// then leaves it to the writer.
func (c *conn) news() {
	if !c.sending.TryLock() {
		c.wake.notify()
		return
	}
	defer c.sending.Unlock()
	if c.socket.isLate() {
		c.wake.notify()
		return
	}
	if c.sendFrames() != nil {
		_ = c.socket.Close() // which ends the connection's reader, and so its writer
	}
}

// sendFrames sends each subscription the newest frame that it has not had, until
// the reader is late. The caller is the one who sends.
func (c *conn) sendFrames() error {
	for _, s := range c.subscriptions() {
		if c.socket.isLate() {
			c.wake.notify() // for the others
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

func (c *conn) subscriptions() []*subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subs
}

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
func (c *conn) read(ctx context.Context) {
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
		id, problem := c.handle(kind, data)
		if problem == nil {
			continue
		}
		select {
		case c.refused <- refusal{id, problem}:
		case <-ctx.Done():
			return
		}
	}
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(cmd.id) >= 0 {
		return problem("the id is in use",
			httpapi.FieldError{Field: "id", Code: "id_in_use", Rule: "must not be that of a subscription"})
	}
	if len(c.subs) >= c.hub.cfg.Subscriptions {
		return httpapi.NewProblem(http.StatusTooManyRequests, "there are too many subscriptions on this connection")
	}
	s, p := c.hub.subscribe(c, cmd.id, cmd.wish)
	if p == nil {
		c.subs = append(slices.Clip(c.subs), s)
		c.wake.notify()
	}
	return p
}

// find returns where the subscription with an id stands, or -1. The lock is held.
func (c *conn) find(id string) int {
	return slices.IndexFunc(c.subs, func(s *subscription) bool { return s.id == id })
}

// unsubscribe tells whether there was such a subscription.
func (c *conn) unsubscribe(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.find(id)
	if i < 0 {
		return false
	}
	feed := c.subs[i].feed
	c.subs = slices.Delete(slices.Clone(c.subs), i, i+1)
	c.hub.part(c, feed)
	return true
}

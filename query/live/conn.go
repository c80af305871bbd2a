package live

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// conn is one WebSocket. Its reader takes requests; its writer is the only one
// that writes messages.
type conn struct {
	hub    *Hub
	ws     *websocket.Conn
	caller auth.Caller // the connection ends when its token expires
	wake   wake
	// refused holds answers to requests that were not accepted. It is short:
	// who does not read them is not read from.
	refused chan refusal

	mu   sync.Mutex
	subs map[string]*subscription
}

type refusal struct {
	id      string
	problem *httpapi.Problem
}

func newConn(h *Hub, ws *websocket.Conn, caller auth.Caller) *conn {
	return &conn{
		hub: h, ws: ws, caller: caller,
		wake: newWake(), refused: make(chan refusal, 4), subs: map[string]*subscription{},
	}
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
	_ = c.ws.Close()
	cancel()
	reader.Wait()
	for id := range c.subs {
		c.unsubscribe(id)
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
			err = c.sendProblem(r.id, r.problem)
		case <-c.wake:
			err = c.sendFrames()
		case <-ping.C:
			err = c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.hub.cfg.WriteTimeout))
		}
		if err != nil {
			return websocket.CloseGoingAway, ""
		}
	}
}

// sendFrames sends each subscription the newest frame that it has not had.
func (c *conn) sendFrames() error {
	c.mu.Lock()
	subs := make([]*subscription, 0, len(c.subs))
	for _, s := range c.subs {
		subs = append(subs, s)
	}
	c.mu.Unlock()
	for _, s := range subs {
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

// has tells whether a subscription still is.
func (c *conn) has(s *subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subs[s.id] == s
}

func (c *conn) sendUpdate(id string, u update) error {
	switch {
	case u.problem != nil:
		return c.sendProblem(id, u.problem)
	case u.unchanged:
		return c.send(unchangedMessage(id, u.at))
	}
	message, err := u.messages.socketMessage(id, u.at)
	if err != nil {
		return err
	}
	if err := c.ws.SetWriteDeadline(time.Now().Add(c.hub.cfg.WriteTimeout)); err != nil {
		return err
	}
	return c.ws.WritePreparedMessage(message)
}

func (c *conn) sendProblem(id string, p *httpapi.Problem) error {
	message, err := json.Marshal(LiveError{id, p})
	if err != nil {
		return err
	}
	return c.send(message)
}

func (c *conn) send(message []byte) error {
	if err := c.ws.SetWriteDeadline(time.Now().Add(c.hub.cfg.WriteTimeout)); err != nil {
		return err
	}
	return c.ws.WriteMessage(websocket.TextMessage, message)
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
	if c.subs[cmd.id] != nil {
		return problem("the id is in use",
			httpapi.FieldError{Field: "id", Code: "id_in_use", Rule: "must not be that of a subscription"})
	}
	if len(c.subs) >= c.hub.cfg.Subscriptions {
		return httpapi.NewProblem(http.StatusTooManyRequests, "there are too many subscriptions on this connection")
	}
	s, p := c.hub.subscribe(c.wake, cmd.id, cmd.wish)
	if p == nil {
		c.subs[cmd.id] = s
		c.wake.notify()
	}
	return p
}

// unsubscribe tells whether there was such a subscription.
func (c *conn) unsubscribe(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subs[id]
	if s == nil {
		return false
	}
	delete(c.subs, id)
	c.hub.part(c.wake, s.feed)
	return true
}

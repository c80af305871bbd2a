package live

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// conn is one WebSocket. Its reader takes requests; its writer is the only one
// that writes messages.
type conn struct {
	hub  *Hub
	ws   *websocket.Conn
	wake chan struct{} // holds a token when a feed has a new frame
	// refused holds answers to requests that were not accepted. It is short:
	// who does not read them is not read from.
	refused chan refusal
	expires time.Time // of the caller's token; zero: never

	mu   sync.Mutex
	subs map[string]*subscription
}

type refusal struct {
	id      string
	problem *httpapi.Problem
}

// subscription is a conn's interest in a feed. Only the writer uses version
// and seq.
type subscription struct {
	id      string
	feed    *feed
	version uint64 // of the frame that was last sent
	seq     uint64 // counts the snapshots sent
}

func newConn(h *Hub, ws *websocket.Conn, expires time.Time) *conn {
	return &conn{hub: h, ws: ws, expires: expires, wake: make(chan struct{}, 1), refused: make(chan refusal, 4), subs: map[string]*subscription{}}
}

func (c *conn) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// serve returns when the connection has ended and nothing of it is left.
func (c *conn) serve(ctx context.Context, draining <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		c.read(ctx)
	})
	code, reason := c.write(ctx, draining)
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Second))
	_ = c.ws.Close()
	cancel()
	reader.Wait()
	for id := range c.subs {
		c.unsubscribe(id)
	}
}

// expiry returns a channel that tells when the caller's token has expired.
func (c *conn) expiry() (expired <-chan time.Time, stop func() bool) {
	if c.expires.IsZero() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(time.Until(c.expires))
	return timer.C, timer.Stop
}

// write sends what is new until the connection ends, and returns the status
// and the reason to close it with.
func (c *conn) write(ctx context.Context, draining <-chan struct{}) (code int, reason string) {
	expired, stop := c.expiry()
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
		f := s.feed.latest()
		if f.version == s.version || !c.has(s) {
			continue
		}
		s.version = f.version
		if f.problem != nil {
			if err := c.sendProblem(s.id, f.problem); err != nil {
				return err
			}
			continue
		}
		s.seq++
		if err := c.send(snapshotMessage(s.id, s.seq, f)); err != nil {
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

// snapshotMessage is {"id":…,"seq":…,"<field>":<body>}. The body was encoded
// once for all subscriptions.
func snapshotMessage(id string, seq uint64, f frame) []byte {
	var b bytes.Buffer
	name, _ := json.Marshal(id) // a string always has a JSON form
	b.WriteString(`{"id":`)
	b.Write(name)
	b.WriteString(`,"seq":`)
	b.WriteString(strconv.FormatUint(seq, 10))
	b.WriteString(`,"` + f.field + `":`)
	b.Write(f.body)
	b.WriteByte('}')
	return b.Bytes()
}

func (c *conn) sendProblem(id string, p *httpapi.Problem) error {
	message, err := json.Marshal(struct {
		ID    string           `json:"id"`
		Error *httpapi.Problem `json:"error"`
	}{id, p})
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
		data, err := io.ReadAll(r)
		if err != nil {
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

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"
)

// broadcastRate is messages of a size that each of some subscribers receives.
type broadcastRate struct {
	every time.Duration
	size  int // bytes
}

// rate is how often a subscriber has received a message in the mean, and of what size.
func (s *subscriberSeen) rate(shape subscriberShape) broadcastRate {
	perSecond := float64(s.Received) / shape.window.Seconds() / float64(shape.subscribers)
	return broadcastRate{
		every: time.Duration(float64(time.Second) / max(perSecond, 1)), size: int(s.Bytes / int64(s.Messages)),
	}
}

// broadcast measures the least that telling many subscribers takes: a loop that
// sends them a ready message, the same to all, on the same processors, while nothing
// else goes on.
func (b *bench) broadcast(
	ctx context.Context, shape subscriberShape, rate broadcastRate,
) (_ subscriberSeen, err error) {
	var none subscriberSeen
	b.say("a plain loop sends each of %d subscribers %d bytes every %s", shape.subscribers, rate.size,
		rate.every.Round(time.Millisecond))
	dir, err := b.folder("broadcast-*")
	if err != nil {
		return none, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return none, fmt.Errorf("broadcast: %w", err)
	}
	var to audience
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &to}
	go func() { _ = srv.Serve(l) }() // ends with Close
	defer func() { err = errors.Join(err, srv.Close(), to.close()) }()
	out := newLines()
	clients, err := start("subscribers", partConfig{
		Dir: dir, HTTP: l.Addr().String(), Subscribers: shape.subscribers,
	}, out)
	if err != nil {
		return none, err
	}
	defer func() {
		if err != nil && clients.ProcessState == nil {
			err = errors.Join(err, clients.stop())
		}
	}()
	if _, err := out.next(ctx, subscriberPatience); err != nil {
		return none, fmt.Errorf("subscribe: %w", err)
	}
	marks, err := to.tell(ctx, shape.window, rate)
	if err != nil {
		return none, err
	}
	return told(ctx, dir, marks, clients, out)
}

// audience is who has subscribed. It answers each subscription by a first message.
type audience struct {
	mu    sync.Mutex
	conns []*websocket.Conn
}

func (a *audience) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var upgrader websocket.Upgrader
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	if _, _, err := ws.ReadMessage(); err != nil {
		ws.Close()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ws.WriteMessage(websocket.TextMessage, broadcastText(0, 0)) == nil {
		a.conns = append(a.conns, ws)
	}
}

func (a *audience) close() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ws := range a.conns {
		err = errors.Join(err, ws.Close())
	}
	return err
}

// broadcastText is a message that has come as far as at, of a size in bytes.
func broadcastText(at uint64, size int) []byte {
	text := fmt.Appendf(nil, `{"lag":{"last_seq":%d}}`, at)
	return append(text, bytes.Repeat([]byte(" "), max(0, size-len(text)))...)
}

// tell sends messages for a while. Each one is a change that all have to be told of.
func (a *audience) tell(ctx context.Context, window time.Duration, rate broadcastRate) (marks []mark, err error) {
	t := time.NewTicker(rate.every)
	defer t.Stop()
	a.mu.Lock() // the last one is added after its first message
	parts := slices.Collect(slices.Chunk(a.conns, len(a.conns)/runtime.GOMAXPROCS(0)+1))
	a.mu.Unlock()
	for at, end := uint64(1), time.Now().Add(window); time.Now().Before(end); at++ {
		ready, err := websocket.NewPreparedMessage(websocket.TextMessage, broadcastText(at, rate.size))
		if err != nil {
			return nil, fmt.Errorf("broadcast: %w", err)
		}
		now := time.Now().UnixMicro()
		sources := map[string]uint64{}
		for _, source := range subscriberSources() {
			sources[source] = at
		}
		for _, clock := range []string{"events", "items", "letters"} {
			marks = append(marks, mark{Clock: clock, At: at, Sources: sources, Sent: now, Durable: now, Shown: now})
		}
		var g errgroup.Group
		for _, conns := range parts {
			g.Go(func() error {
				for _, ws := range conns {
					if err := ws.WritePreparedMessage(ready); err != nil {
						return fmt.Errorf("broadcast: %w", err)
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return marks, nil
}

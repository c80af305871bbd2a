package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

// arrival is a snapshot that a WebSocket has received.
type arrival struct {
	at     time.Time
	funnel funnel
	err    error
}

// total counts the events of all stages.
func (f funnel) total() (n uint64) {
	for _, s := range f.Stages {
		n += s.Events
	}
	return n
}

// listen opens a WebSocket and receives what comes, noting the time first.
func (m *millrace) listen(ctx context.Context) (*websocket.Conn, <-chan arrival, error) {
	ws, _, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+m.http+"/api/v1/live", nil)
	if err != nil {
		return nil, nil, fmt.Errorf("open a WebSocket: %w", err)
	}
	arrivals := make(chan arrival, 64)
	go func() {
		defer close(arrivals)
		for {
			_, data, err := ws.ReadMessage()
			a := arrival{at: time.Now(), err: err}
			if err == nil {
				var snapshot struct{ Funnel funnel }
				a.err = json.Unmarshal(data, &snapshot)
				a.funnel = snapshot.Funnel
			}
			arrivals <- a
			if err != nil {
				return
			}
		}
	}()
	return ws, arrivals, nil
}

func subscribe(ws *websocket.Conn, id, period string) error {
	return ws.WriteJSON(map[string]string{"op": "subscribe", "id": id, "view": "funnel", "period": period, "tz": "UTC"})
}

const liveTimeout = 10 * time.Second

func next(ctx context.Context, arrivals <-chan arrival) (arrival, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	select {
	case a, ok := <-arrivals:
		if !ok {
			return a, fmt.Errorf("the WebSocket is closed")
		}
		return a, a.err
	case <-ctx.Done():
		return arrival{}, fmt.Errorf("waiting for a snapshot: %w", ctx.Err())
	}
}

// live measures how long an event takes from the beginning of its POST to the
// snapshot that has it, when nothing else goes on.
func (b *bench) live(ctx context.Context) error {
	m, err := b.ready(ctx)
	if err != nil {
		return err
	}
	n := 300
	if b.cfg.events < 100_000 {
		n = 4
	}
	b.say("posting %d events one at a time", n)
	took, err := b.fresh(ctx, m, n)
	if err != nil {
		return err
	}
	floor, err := b.echoes(ctx, (n+2)/3)
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	l, f := load{latency: took}, load{latency: floor}
	const s, peer = "live", "JetStream to consumer to WebSocket"
	b.add(
		line{s, "POST to WebSocket: median", "ms", less, l.at(.5), "limit", 50},
		line{s, "", "ms", less, l.at(.5), peer, f.at(.5)},
		line{s, "POST to WebSocket: 95th percentile", "ms", less, l.at(.95), peer, f.at(.95)},
		line{s, "POST to WebSocket: 99th percentile", "ms", less, l.at(.99), peer, f.at(.99)},
		line{s, "POST to WebSocket: worst", "ms", less, l.at(1), peer, f.at(1)},
	)
	return nil
}

func (b *bench) fresh(ctx context.Context, m *millrace, n int) ([]time.Duration, error) {
	ws, arrivals, err := m.listen(ctx)
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	if err := subscribe(ws, "a", "today"); err != nil {
		return nil, err
	}
	last, err := next(ctx, arrivals)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for range n {
		pause()
		from, want := last.funnel.From, last.funnel.total()+1
		start := time.Now()
		if err := m.send(ctx, http.DefaultClient, "/events", b.posts.text()); err != nil {
			return nil, err
		}
		for last.funnel.total() < want && last.funnel.From.Equal(from) {
			if last, err = next(ctx, arrivals); err != nil {
				return nil, err
			}
		}
		if last.funnel.From.Equal(from) { // else another day has begun, and counts anew
			took = append(took, last.at.Sub(start))
		}
	}
	return took, nil
}

// pause lets everything come to rest, at no fixed rhythm.
func pause() { time.Sleep(200*time.Millisecond + rand.N(100*time.Millisecond)) }

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// count is what the funnel says of a stage.
type count struct {
	Name     string `json:"name"`
	Events   int    `json:"count"`
	Articles int    `json:"unique_articles"`
}

// live is a WebSocket that stays subscribed: when it is lost, it connects
// again.
type live struct {
	url     string
	sources []string // one subscription each; empty: all together

	mu       sync.Mutex
	state    map[string][]count // by source
	most     map[string]snapshot
	past     map[string]*past
	connects int
	failures []string
}

func newLive(query string) *live {
	return &live{
		url: "ws://" + query + "/api/v1/live", sources: append([]string{""}, sourceNames()[:2]...),
		state: map[string][]count{}, most: map[string]snapshot{}, past: map[string]*past{},
	}
}

func (l *live) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = l.once(ctx) // lost with the process that it led to
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// once subscribes and reads until the connection is lost.
func (l *live) once(ctx context.Context) error {
	conn, resp, err := websocket.DefaultDialer.DialContext(ctx, l.url, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for i, source := range l.sources {
		m := map[string]string{
			"op": "subscribe", "id": fmt.Sprint(i), "view": "funnel", "period": "24h",
			"source": source,
		}
		if err := conn.WriteJSON(m); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.connects++
	l.mu.Unlock()
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		l.take(message)
	}
}

// take keeps a snapshot. Nothing leaves the window during a run, so no number of
// any stage may fall, whatever breaks, unless the window itself has jumped.
func (l *live) take(message []byte) {
	var m struct {
		ID     string
		Funnel *struct {
			httpFunnel
			Source string
			To     time.Time
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := json.Unmarshal(message, &m); err != nil {
		l.fail("unreadable message: %v: %.200s", err, message)
		return
	}
	if m.Funnel == nil { // an error, as while ClickHouse is away
		return
	}
	source := m.Funnel.Source
	l.state[source] = m.Funnel.Stages
	if off := m.Funnel.From.Sub(time.Now().Add(-24 * time.Hour)); off.Abs() > 20*time.Minute {
		return // the clock is wrong, and the window is another
	}
	now := snapshot{m.Funnel.Stages, m.Funnel.Stream.Folded, m.Funnel.Method == "exact", m.Funnel.From, m.Funnel.To}
	l.keep(source, now)
	most, known := l.most[source]
	if stage := now.below(most); known && stage != "" {
		l.fail("stage %s of source %q fell: from %s to %s", stage, source, most, now)
		return
	}
	l.most[source] = now
}

// fail keeps what must not be. The lock is held.
func (l *live) fail(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(l.failures) < 20 {
		l.failures = append(l.failures, text)
	}
}

// keep adds a snapshot to those of the past. The lock is held.
func (l *live) keep(source string, s snapshot) {
	if l.past[source] == nil {
		l.past[source] = new(past)
	}
	l.past[source].add(s)
}

// reaches waits until the state is what is wanted, and returns what it is.
func (l *live) reaches(ctx context.Context, source string, want []count) (got []count, ok bool) {
	for {
		l.mu.Lock()
		got = l.state[source]
		l.mu.Unlock()
		if slices.Equal(got, want) {
			return got, true
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return got, false
		}
	}
}

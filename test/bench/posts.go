package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// posts are new events that happen now, each stage of each article once.
type posts struct{ next atomic.Int64 }

// postSerial keeps their articles apart from those of the history.
const postSerial = 2

func (p *posts) text() []byte {
	i := p.next.Add(1) - 1
	stages := int64(len(stageNames))
	h := history{serial: postSerial, moments: []moment{{
		at: time.Now().UnixMilli(), article: uint32(i / stages), stage: uint8(i % stages),
	}}}
	return h.appendJSON(make([]byte, 0, 360), 0)
}

func (p *posts) message() (client.Message, error) {
	var record event.Record
	text := p.text()
	if invalid := event.Decode(text, &record); invalid != nil {
		return client.Message{}, fmt.Errorf("generated event %s: %w", text, invalid)
	}
	return client.EventMessage(&record, text), nil
}

// addTo adds all that have been made to a funnel.
func (p *posts) addTo(funnel []count) []count {
	n, stages := uint64(p.next.Load()), uint64(len(stageNames))
	for i := range funnel {
		more := (n + stages - 1 - uint64(i)) / stages
		funnel[i].Events += more
		funnel[i].Articles += more
	}
	return funnel
}

// ready returns the program with the whole history folded.
func (b *bench) ready(ctx context.Context) (*millrace, error) {
	if b.running != nil {
		return b.running, nil
	}
	if b.data == "" {
		data, err := b.filled(ctx)
		if err != nil {
			return nil, err
		}
		b.data = data
	}
	b.say("starting with %d events", b.cfg.events)
	m, err := b.up(ctx, b.data)
	if err != nil {
		return nil, err
	}
	b.running = m // stopped at the end of the run
	if _, err := m.folded(ctx, uint64(b.cfg.events)); err != nil {
		return nil, err
	}
	return m, m.check(ctx, uint64(b.cfg.events), b.history.truth())
}

// awaitFolded waits until all that was published is folded, and compares.
func (b *bench) awaitFolded(ctx context.Context, m *millrace) error {
	s, err := m.js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	last := s.CachedInfo().State.LastSeq
	if _, err := m.folded(ctx, last); err != nil {
		return err
	}
	return m.check(ctx, last, b.posts.addTo(b.history.truth()))
}

// load is what clients that do the same thing over and over have seen.
type load struct {
	took    time.Duration
	latency []time.Duration
}

func (l load) rate() float64        { return float64(len(l.latency)) / l.took.Seconds() }
func (l load) at(q float64) float64 { return quantile(milliseconds(l.latency), q) }

// press lets a number of clients do something, each again and again, until the
// time is over or, with a limit, each has done it that often.
func press(
	ctx context.Context, clients int, long time.Duration, limit int, do func(context.Context) error,
) (load, error) {
	var mu sync.Mutex
	var l load
	var failed error
	var all sync.WaitGroup
	begin := time.Now()
	for range clients {
		all.Go(func() {
			var mine []time.Duration
			var err error
			for err == nil && time.Since(begin) < long && (limit == 0 || len(mine) < limit) {
				start := time.Now()
				err = do(ctx)
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			l.latency = append(l.latency, mine...)
			if failed == nil {
				failed = err
			}
		})
	}
	all.Wait()
	l.took = time.Since(begin)
	slices.Sort(l.latency)
	return l, failed
}

// window is how long a section that is bounded by time presses.
func (b *bench) window() time.Duration {
	if b.cfg.events < 100_000 {
		return 100 * time.Millisecond
	}
	return 5 * time.Second
}

// decode reads an answer that has to have a status.
func decode(resp *http.Response, status int, into any) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", resp.Request.URL, err)
	}
	if resp.StatusCode != status {
		return fmt.Errorf("%s: status %d: %s", resp.Request.URL, resp.StatusCode, body)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %s: %w", resp.Request.URL, body, err)
	}
	return nil
}

// send posts a body that has to be taken as new.
func (m *millrace) send(ctx context.Context, c *http.Client, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.http+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return decode(resp, http.StatusCreated, nil)
}

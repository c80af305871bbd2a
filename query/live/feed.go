package live

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// feedKey names what a feed shows.
type feedKey struct {
	view, source, spec string
	skipReclassified   bool
}

// frame is what a feed has last come to: a snapshot or, while the view cannot
// be computed, a problem.
type frame struct {
	version uint64 // from 1; larger for newer frames
	field   string // of the message that carries body
	body    []byte
	problem *httpapi.Problem
}

// feed computes the snapshots of one view.
type feed struct {
	key    feedKey
	view   View
	query  Query
	cancel context.CancelFunc

	mu    sync.Mutex
	frame frame
	conns map[*conn]int // subscriptions of each
}

// latest returns the newest frame.
func (f *feed) latest() frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frame
}

// publish makes a frame the newest and tells the subscribers.
func (f *feed) publish(next frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next.version = f.frame.version + 1
	f.frame = next
	for c := range f.conns {
		c.notify()
	}
}

// refresh replaces the newest frame's body by one with the same numbers: who
// subscribes next shall not get an old one.
func (f *feed) refresh(body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frame.body = body
}

// maxPause bounds how long a feed rests after a snapshot that took long.
const maxPause = 500 * time.Millisecond

// run computes snapshots until ctx ends.
func (f *feed) run(ctx context.Context, cfg Config) {
	r := run{feed: f, interval: cfg.Interval, refresh: cfg.Refresh}
	for {
		changed := f.view.Changed()
		begun := time.Now()
		pause := r.step(ctx)
		// A snapshot that is dear to compute is computed more seldom, so that
		// a feed takes a tenth of a processor at most.
		pause = max(pause, min(9*time.Since(begun), maxPause))
		if !sleep(ctx, nil, pause) || !sleep(ctx, changed, cfg.Refresh) {
			return
		}
	}
}

// run is a feed's work from one snapshot to the next.
type run struct {
	feed     *feed
	interval time.Duration
	refresh  time.Duration
	begun    bool   // a snapshot has been published
	failing  bool   // the last step found a problem
	numbers  string // of the last snapshot published
}

// step computes a snapshot, publishes it if it is news, and returns how long
// not to compute another.
func (r *run) step(ctx context.Context) time.Duration {
	snapshot, err := r.feed.view.Snapshot(ctx, r.feed.query)
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		if !r.failing {
			r.feed.publish(frame{problem: r.feed.view.Problem(err)})
		}
		r.failing = true
		return time.Second
	}
	var pause time.Duration
	if snapshot.Slow {
		pause = r.refresh
	}
	if r.begun && !r.failing && snapshot.Numbers == r.numbers {
		r.feed.refresh(snapshot.Body)
		return pause
	}
	r.feed.publish(frame{field: r.feed.key.view, body: snapshot.Body})
	pause = max(pause, r.interval)
	if !r.begun {
		pause = 0 // the first change is sent at once
	}
	r.begun, r.failing, r.numbers = true, false, snapshot.Numbers
	return pause
}

// sleep waits for a while, or until wake is closed. It returns false when ctx
// ends.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}

package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// feedKey names what a feed shows.
type feedKey struct{ view, question string }

// frame is what a feed has last come to: a snapshot or, while the view cannot
// be computed, a problem.
type frame struct {
	version  uint64 // counts the frames
	seq      uint64 // counts the snapshots among them
	numbers  string // of the last snapshot
	messages *messages
	problem  *httpapi.Problem
}

// feed computes the snapshots of one view with one set of parameters, while it
// has readers.
type feed struct {
	key    feedKey
	epoch  string
	source Source
	every  time.Duration
	log    *slog.Logger
	turn   sync.Mutex // held by run: a run begins when the one before has ended

	mu      sync.Mutex
	frame   frame
	fresh   bool         // the frame is of the present run
	readers map[wake]int // subscriptions of each
	cancel  context.CancelFunc
	idle    *time.Timer // forgets the feed; while it has no readers
	since   time.Time   // since when it has none
}

// latest returns the newest frame. It has version 0 before the first one of the
// present run.
func (f *feed) latest() frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fresh {
		return frame{}
	}
	return f.frame
}

// locate returns which snapshot of the feed an id names.
func (f *feed) locate(p snapshotID) (seq, base uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p.in(f.epoch, f.frame.seq)
}

// take makes a snapshot the newest frame, and tells whether it is news. One with
// the numbers of the snapshot before takes its place: new readers shall not get
// an old one.
func (f *feed) take(ctx context.Context, s Snapshot) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	messages := newMessages(f.key.view, s.Body)
	if f.frame.seq > 0 && f.frame.problem == nil && f.frame.numbers == s.Numbers {
		f.frame.messages = messages
		if !f.fresh {
			f.tell()
		}
		return false
	}
	f.frame = frame{version: f.frame.version + 1, seq: f.frame.seq + 1, numbers: s.Numbers, messages: messages}
	f.tell()
	return true
}

// fail makes a problem the newest frame, unless one is.
func (f *feed) fail(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.fresh && f.frame.problem != nil {
		return
	}
	p := problemOf(err)
	if cause := errors.Unwrap(p); cause != nil {
		err = cause
	}
	f.log.Warn("a live view cannot be computed; trying again", "view", f.key.view, "error", err)
	f.frame = frame{version: f.frame.version + 1, seq: f.frame.seq, problem: p}
	f.tell()
}

// tell tells the readers of a frame. The lock is held.
func (f *feed) tell() {
	f.fresh = true
	for reader := range f.readers {
		reader.notify()
	}
}

// maxPause bounds how long a feed rests after a snapshot that took long.
const maxPause = 500 * time.Millisecond

// run computes snapshots until ctx ends.
func (f *feed) run(ctx context.Context, cfg Config) {
	f.turn.Lock()
	defer f.turn.Unlock()
	for begun := false; ; {
		changed := f.source.Changed()
		start := time.Now()
		pause := f.step(ctx, cfg, &begun)
		// A snapshot that is dear to compute is computed more seldom, so that
		// a feed takes a tenth of a processor at most.
		pause = max(pause, min(9*time.Since(start), maxPause))
		if !sleep(ctx, nil, pause) || !sleep(ctx, changed, f.every) {
			return
		}
	}
}

// step computes a snapshot and returns how long not to compute another.
func (f *feed) step(ctx context.Context, cfg Config, begun *bool) (pause time.Duration) {
	snapshot, err := f.source.Snapshot(ctx)
	if err != nil {
		f.fail(ctx, err)
		return time.Second
	}
	if snapshot.Slow {
		pause = cfg.Refresh
	}
	// The first change is sent at once.
	if news := f.take(ctx, snapshot); news && *begun {
		pause = max(pause, cfg.Interval)
	} else if news {
		pause = 0
	}
	*begun = true
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

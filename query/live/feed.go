package live

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
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
	made   uint64 // counts the feeds of the hub
	source Source
	every  time.Duration
	log    *slog.Logger
	turn   sync.Mutex // held by run: a run begins when the one before has ended

	mu      sync.Mutex
	frame   frame
	fresh   bool           // the frame is of the present run
	readers map[reader]int // subscriptions of each
	cancel  context.CancelFunc
	idle    *time.Timer // forgets the feed; while it has no readers
	since   time.Time   // since when it has none

	told []reader // by tell, which uses its memory again
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

// onlyCaller returns the name of the caller whose connections alone read the feed; false when
// there are several callers, or none.
func (f *feed) onlyCaller() (name string, alone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		if alone && r.name() != name {
			return "", false
		}
		name, alone = r.name(), true
	}
	return name, alone
}

// loseReaders ends the connections that read the feed.
func (f *feed) loseReaders() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		go r.lose()
	}
}

// locate returns which snapshot of the feed an id names.
func (f *feed) locate(p snapshotID) (seq, base uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p.in(f.epoch, f.frame.seq)
}

// take makes a snapshot the newest frame. It tells whether that is news, and
// whether readers have to be told. One with the numbers of the snapshot before
// takes its place: new readers shall not get an old one.
func (f *feed) take(ctx context.Context, s Snapshot) (news, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return false, false
	}
	first := !f.fresh
	f.fresh = true
	messages := newMessages(f.key.view, s.Body)
	if f.frame.seq > 0 && f.frame.problem == nil && f.frame.numbers == s.Numbers {
		f.frame.messages = messages
		return false, first
	}
	f.frame = frame{version: f.frame.version + 1, seq: f.frame.seq + 1, numbers: s.Numbers, messages: messages}
	return true, true
}

// fail makes a problem the newest frame, unless one is, and tells whether it has.
func (f *feed) fail(ctx context.Context, err error) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.fresh && f.frame.problem != nil {
		return false
	}
	f.fresh = true
	p := problemOf(err)
	if cause := errors.Unwrap(p); cause != nil {
		err = cause
	}
	f.log.Warn("a live view cannot be computed; trying again", "view", f.key.view, "error", err)
	f.frame = frame{version: f.frame.version + 1, seq: f.frame.seq, problem: p}
	return true
}

// tell tells the readers of a frame, and returns how long that took.
func (f *feed) tell() time.Duration {
	start := time.Now()
	f.mu.Lock()
	f.told = slices.AppendSeq(f.told[:0], maps.Keys(f.readers))
	f.mu.Unlock()
	defer func() { clear(f.told) }() // it keeps no reader that goes
	for _, r := range f.told {
		r.news()
	}
	return time.Since(start)
}

// maxPause bounds how long a feed rests after a snapshot that took long.
const maxPause = 500 * time.Millisecond

// run computes snapshots until ctx ends.
func (f *feed) run(ctx context.Context, cfg Config) {
	f.turn.Lock()
	defer f.turn.Unlock()
	for begun := false; ; {
		start, changed := time.Now(), f.source.Changed()
		pause, wait := f.step(ctx, cfg, &begun)
		if !sleep(ctx, nil, pause) {
			return
		}
		if changed == nil { // it is computed as often as it says, and the pause is part of that
			wait -= time.Since(start)
		}
		if !sleep(ctx, changed, wait) {
			return
		}
	}
}

// step computes a snapshot. It returns how long not to compute another, and how
// long to wait for a change after that.
func (f *feed) step(ctx context.Context, cfg Config, begun *bool) (pause, wait time.Duration) {
	start := time.Now()
	snapshot, err := f.source.Snapshot(ctx)
	// An expensive snapshot is computed less often, so that a feed
	// does so for a quarter of the time at most. On a busy machine much of that is
	// waiting, and to rest for longer would make everyone wait more.
	rest := min(3*time.Since(start), maxPause)
	if err != nil {
		if f.fail(ctx, err) {
			f.tell()
		}
		return time.Second, f.every
	}
	wait = f.every
	if snapshot.Again > 0 {
		wait = min(wait, snapshot.Again)
	}
	if snapshot.Slow {
		pause = cfg.Refresh
	}
	news, tell := f.take(ctx, snapshot)
	var told time.Duration
	if tell {
		told = f.tell()
	}
	if news && *begun {
		// Telling many readers takes two thirds of the time at most.
		pause = max(pause, cfg.Interval-told, told/2)
	} else if news {
		pause = 0 // the first change is sent at once
	}
	*begun = true
	return max(pause, rest), wait
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

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// watch follows the positions up to which the slot groups have been folded.
type watch struct {
	js     jetstream.JetStream
	groups int
	peer   peer

	mu   sync.Mutex
	seen []record
}

type record struct {
	From, To uint64
	CaughtUp uint64 `json:"caught_up"` // with nothing left to fold up to here
	Owner    string
}

func (r record) position() uint64 { return max(r.From, r.CaughtUp) }

// connect makes a connection that outlives the server's deaths.
func connect(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the default one prints
}

// run looks at the positions until ctx ends.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		if seen, err := w.read(ctx); err == nil {
			w.mu.Lock()
			w.seen = seen
			w.mu.Unlock()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (w *watch) read(ctx context.Context) (seen []record, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if w.peer != noPeer {
		return w.peerPosition(ctx)
	}
	kv, err := w.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return nil, err
	}
	for group := range w.groups {
		entry, err := kv.Get(ctx, fmt.Sprint("funnel.", group))
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err != nil {
			return nil, err
		}
		seen = append(seen, r)
	}
	return seen, nil
}

// last returns the positions as last seen: none before they all exist.
func (w *watch) last() []record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// decided are the ends of the last batches that were begun: a position beyond
// is new work. Where they cannot be read, they are the last ones seen.
func (w *watch) decided() (ends []uint64) {
	seen, err := w.read(context.Background())
	if err != nil {
		seen = w.last()
	}
	for _, r := range seen {
		ends = append(ends, max(r.To, r.position()))
	}
	return ends
}

// owner is that of the first group.
func (w *watch) owner() string {
	if seen := w.last(); len(seen) > 0 {
		return seen[0].Owner
	}
	return ""
}

// beyond waits until all positions have moved, and tells whether they have.
func (w *watch) beyond(ends []uint64, limit time.Duration) bool {
	return within(limit, func() bool {
		seen := w.last()
		for i, end := range ends {
			if seen[i].position() <= end {
				return false
			}
		}
		return len(seen) > 0
	})
}

// shared waits until so many projectors own groups.
func (w *watch) shared(n int, limit time.Duration) bool {
	return within(limit, func() bool {
		owners := map[string]bool{}
		for _, r := range w.last() {
			owners[r.Owner] = r.Owner != ""
		}
		return len(owners) == n && !owners[""]
	})
}

func within(limit time.Duration, holds func() bool) bool {
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// begun waits until every group has an owner.
func (w *watch) begun(ctx context.Context) error {
	for len(w.last()) == 0 {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("nothing is folded: %w", ctx.Err())
		}
	}
	return nil
}

// folded waits until everything on the stream is folded.
func (w *watch) folded(ctx context.Context) error {
	behind := errors.New("the stream does not answer")
	for ctx.Err() == nil {
		if s, err := w.js.Stream(ctx, stream.Events); err == nil {
			last, seen := s.CachedInfo().State.LastSeq, w.last()
			if !slices.ContainsFunc(seen, func(r record) bool { return r.position() < last }) {
				return nil
			}
			behind = fmt.Errorf("the positions are %+v, the stream ends at %d", seen, last)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("not everything is folded: %w", behind)
}

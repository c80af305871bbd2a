package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// watch follows the positions up to which the slot groups have been folded.
type watch struct {
	js   jetstream.JetStream
	peer peer

	mu   sync.Mutex
	seen []record // of groups that are to end, then of those of the last epoch
}

type record struct {
	group slots.Group
	funnel.Checkpoint
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
	l, err := assignment.ReadLayout(ctx, kv)
	if err != nil || len(l.Epochs) == 0 {
		return nil, errors.Join(err, errNone)
	}
	left, err := assignment.Left(ctx, kv, l)
	if err != nil {
		return nil, err
	}
	for _, g := range append(left, l.Current()...) {
		entry, err := kv.Get(ctx, g.Key())
		if errors.Is(err, jetstream.ErrKeyNotFound) && len(l.Epochs) > 1 {
			seen = append(seen, record{g, funnel.Checkpoint{From: g.After, To: g.After}})
			continue
		}
		if err != nil {
			return nil, err
		}
		r, err := funnel.ParseCheckpoint(entry.Value())
		if err != nil {
			return nil, err
		}
		seen = append(seen, record{g, r})
	}
	return seen, nil
}

var errNone = errors.New("there are no slot groups yet")

// last returns the positions as last seen: none before they all exist.
func (w *watch) last() []record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// decided are the ends of the last batches that were begun, by group: a
// position beyond is new work. Where they cannot be read, they are the last
// ones seen.
func (w *watch) decided() map[uint32]uint64 {
	seen, err := w.read(context.Background())
	if err != nil {
		seen = w.last()
	}
	ends := map[uint32]uint64{}
	for _, r := range seen {
		ends[r.group.ID] = max(r.To, r.position())
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

// alone tells whether one slot group has folded everything. The ids of groups go
// on when their number is changed.
func (w *watch) alone() bool {
	seen := w.last()
	return len(seen) == 1 && seen[0].group.ID == 0
}

// beyond waits until all positions have moved, and tells whether they have. A
// group that was not there before has to move beyond all of them.
func (w *watch) beyond(ends map[uint32]uint64, limit time.Duration) bool {
	var most uint64
	for _, end := range ends {
		most = max(most, end)
	}
	return within(limit, func() bool {
		seen := w.last()
		for _, r := range seen {
			end, known := ends[r.group.ID]
			if !known {
				end = most
			}
			if r.position() <= end {
				return false
			}
		}
		return len(seen) > 0
	})
}

// shared waits until so many projectors own groups, or as many as there are
// groups.
func (w *watch) shared(projectors int, limit time.Duration) bool {
	return within(limit, func() bool { return sharedBy(projectors, w.last()) })
}

func sharedBy(projectors int, seen []record) bool {
	owners := map[string]bool{}
	for _, r := range seen {
		owners[r.Owner] = true
	}
	return len(seen) > 0 && !owners[""] && len(owners) == min(projectors, len(seen))
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

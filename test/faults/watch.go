package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// watch follows the position up to which the slot group has been folded.
type watch struct {
	js jetstream.JetStream

	mu   sync.Mutex
	seen record
}

type record struct {
	From, To uint64
	Owner    string
}

// connect makes a connection that outlives the server's deaths.
func connect(addr string) (*nats.Conn, error) {
	return nats.Connect("nats://"+addr, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.RetryOnFailedConnect(true))
}

// run looks at the position until ctx ends.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		if r, err := w.read(ctx); err == nil {
			w.mu.Lock()
			w.seen = r
			w.mu.Unlock()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (w *watch) read(ctx context.Context) (r record, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	kv, err := w.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return r, err
	}
	entry, err := kv.Get(ctx, "funnel.0")
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(entry.Value(), &r)
}

func (w *watch) last() record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// decided is the end of the last batch that was begun: a position beyond it is
// new work. Where it cannot be read, it is the last one seen.
func (w *watch) decided() uint64 {
	if r, err := w.read(context.Background()); err == nil {
		return r.To
	}
	return w.last().To
}

func (w *watch) position() uint64 { return w.last().From }

func (w *watch) owner() string { return w.last().Owner }

// beyond waits until the position has moved, and tells whether it has.
func (w *watch) beyond(position uint64, limit time.Duration) bool {
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(20 * time.Millisecond) {
		if w.position() > position {
			return true
		}
	}
	return false
}

// begun waits until something has been folded.
func (w *watch) begun(ctx context.Context) error {
	for w.position() == 0 {
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
			last := s.CachedInfo().State.LastSeq
			if r := w.last(); r.From >= last {
				return nil
			}
			behind = fmt.Errorf("the position is %+v, the stream ends at %d", w.last(), last)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("not everything is folded: %w", behind)
}

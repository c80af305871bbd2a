package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// announced are the batches that the projector has announced, which it does
// as soon as a batch has every effect. Its checkpoint says so with the next
// batch, or when no other has come for a while.
type announced struct {
	mu      sync.Mutex
	batches []announcedBatch // their ends grow
}

// announcedBatch is the end of a batch, and when it was announced.
type announcedBatch struct {
	to uint64
	at time.Time
}

func (a *announced) follow(nc *nats.Conn) error {
	_, err := nc.Subscribe(stream.FunnelDeltas, func(m *nats.Msg) {
		now := time.Now()
		var d contract.Delta
		if d.UnmarshalBinary(m.Data) != nil {
			return // then the checkpoint alone tells
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if n := len(a.batches); n == 0 || d.To > a.batches[n-1].to {
			a.batches = append(a.batches, announcedBatch{d.To, now})
		}
	})
	if err != nil {
		return fmt.Errorf("follow the projector: %w", err)
	}
	return nil
}

// folded waits until the checkpoint says that everything up to a stream
// sequence has every effect, and returns when that came about.
func (m *millrace) folded(ctx context.Context, seq uint64) (time.Time, error) {
	kv, err := m.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return time.Time{}, fmt.Errorf("open the checkpoints: %w", err)
	}
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		at, err := checkpoint(ctx, kv)
		if err != nil {
			return time.Time{}, err
		}
		if at >= seq {
			return m.announced.when(seq), nil
		}
		select {
		case <-every.C:
		case <-m.done:
			return time.Time{}, m.failure()
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for sequence %d to be folded, %d is: %w", seq, at, ctx.Err())
		}
	}
}

// when returns when the last batch was announced, now, if seq is not part of it or
// of one before: that was missed.
func (a *announced) when(seq uint64) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.batches); n > 0 && a.batches[n-1].to >= seq {
		return a.batches[n-1].at
	}
	return time.Now()
}

// of returns when the batch that has a sequence was announced.
func (a *announced) of(seq uint64) (at time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := sort.Search(len(a.batches), func(i int) bool { return a.batches[i].to >= seq })
	if i == len(a.batches) {
		return at, false
	}
	return a.batches[i].at, true
}

// between counts the batches that were announced in a time.
func (a *announced) between(first, last int64) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.batches {
		if at := b.at.UnixMicro(); at >= first && at <= last {
			n++
		}
	}
	return n
}

// checkpoint returns the sequence up to which everything has every effect.
func checkpoint(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
	entry, err := kv.Get(ctx, slots.Group{}.Key())
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the checkpoint: %w", err)
	}
	c, err := contract.ParseCheckpoint(entry.Value())
	if err != nil {
		return 0, fmt.Errorf("read the checkpoint: %w", err)
	}
	return c.From, nil
}

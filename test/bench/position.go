package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// announced is the last batch that the projector has announced, which it does
// as soon as the batch has every effect. Its checkpoint says so with the next
// batch, or when no other has come for a while.
type announced struct {
	mu sync.Mutex
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
		if d.To > a.to {
			a.to, a.at = d.To, now
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

// when returns when the batch that ends at seq was announced; now, if that
// was missed.
func (a *announced) when(seq uint64) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.to < seq {
		return time.Now()
	}
	return a.at
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

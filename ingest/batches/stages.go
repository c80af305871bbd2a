package batches

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Bounds of what goes from stage to stage.
const (
	// maxRead is how many bytes of what was read wait to be published. What is larger waits for
	// all others.
	maxRead = 32 << 20
	// maxGroup is how many batches are published at once.
	maxGroup = 500
	// publishWithin is how long that may take: far longer than it does, unless the answer was lost.
	publishWithin = 20 * time.Second
	// removers is how many messages are removed from the stream at once.
	removers = 8
)

// done is what was read of a message.
type done struct {
	entry
	within context.Context // with the span of the attempt
	value  parts.Value
}

// stages follow each other: what readers have read is published, and then the messages are
// removed. Each takes at once what has come while it was busy, so a sync to disk is shared by all
// that wait for it.
type stages struct {
	r       *Readers
	st      jetstream.Stream
	room    *semaphore.Weighted // of what was read, in bytes
	read    chan done           // to be published
	durable chan uint64         // sequences to be removed
	failed  chan result         // that could not be published
}

func newStages(r *Readers, st jetstream.Stream) *stages {
	return &stages{
		r: r, st: st, room: semaphore.NewWeighted(maxRead), read: make(chan done, maxGroup),
		durable: make(chan uint64, maxGroup), failed: make(chan result),
	}
}

// weight is how much of the room a value takes.
func weight(v parts.Value) int64 { return int64(min(v.Size(), maxRead)) }

// publish has a batch published. It waits for room.
func (s *stages) publish(ctx context.Context, d done) error {
	if err := s.room.Acquire(ctx, weight(d.value)); err != nil {
		return err
	}
	return send(ctx, s.read, d)
}

// finish has a message removed.
func (s *stages) finish(ctx context.Context, seq uint64) error { return send(ctx, s.durable, seq) }

// run runs the stages until ctx ends.
func (s *stages) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.publishAll(ctx) })
	g.Go(func() error { return s.removeAll(ctx) })
	return g.Wait()
}

// publishAll publishes what was read. What cannot be published is read again.
func (s *stages) publishAll(ctx context.Context) error {
	for {
		group, err := gather(ctx, s.read)
		if err != nil {
			return err
		}
		values := make([]parts.Value, len(group))
		for i, d := range group {
			values[i] = d.value
		}
		within, cancel := context.WithTimeout(ctx, publishWithin)
		failure := parts.Publish(within, s.r.js, values...)
		cancel()
		for _, d := range group {
			s.room.Release(weight(d.value))
			if failure != nil {
				err = send(ctx, s.failed, result{d.entry, d.within, failure})
			} else {
				err = s.finish(ctx, d.seq)
			}
			if err != nil {
				return err
			}
		}
	}
}

// removeAll removes messages. If it ends before, they are read again, which changes nothing.
func (s *stages) removeAll(ctx context.Context) error {
	failed := retry.WarnWait(s.r.log, "a message whose batch was read is not removed, trying again")
	g, ctx := errgroup.WithContext(ctx)
	for range removers {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case seq := <-s.durable:
					_ = backoff.Do(ctx, func() error { return s.remove(ctx, seq) }, failed)
				}
			}
		})
	}
	return g.Wait()
}

func (s *stages) remove(ctx context.Context, seq uint64) error {
	if err := s.st.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("remove message %d from %s: %w", seq, stream.Batches, err)
	}
	return nil
}

// gather waits for one, and returns it with all that have come since.
func gather[T any](ctx context.Context, from <-chan T) (all []T, err error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case one := <-from:
		all = append(all, one)
	}
	for len(all) < cap(from) {
		select {
		case one := <-from:
			all = append(all, one)
		default:
			return all, nil
		}
	}
	return all, nil
}

func send[T any](ctx context.Context, to chan<- T, v T) error {
	select {
	case to <- v:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Package ordered reads a stream of NATS from its first message on, in order. It keeps no position: the client library
// makes its ordered consumer again when messages were missed. It does so behind the last message that it has had, also in
// a stream that somebody has deleted and made anew, so Read looks for that.
package ordered

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
)

// ErrRemade is the error of reading a stream that was deleted and made anew meanwhile.
var ErrRemade = errors.New("the stream was made anew")

// lookEvery is how often Read looks whether the stream was made anew. Tests need less.
var lookEvery = 5 * time.Second

// Read hands the messages of a stream to handle, in order and in batches of what is there, of at most batch messages,
// until ctx ends or something fails. Up to five times as many are in memory. It returns nil when the connection is
// closed, and ErrRemade within some seconds after the stream was made anew. The slice is used again after handle has
// returned.
func Read(
	ctx context.Context, js jetstream.JetStream, stream string, batch int,
	handle func(context.Context, []jetstream.Msg) error,
) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	it, err := consumer.Messages(jetstream.PullMaxMessages(2*batch), jetstream.PullHeartbeat(2*time.Second),
		jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	reading, end := context.WithCancelCause(ctx)
	defer end(nil)
	go watch(reading, js, s.CachedInfo(), end)
	stop := context.AfterFunc(reading, it.Stop)
	defer stop()
	defer it.Stop()
	err = handOver(reading, it, batch, handle)
	if cause := context.Cause(reading); errors.Is(cause, ErrRemade) && ctx.Err() == nil {
		err = cause
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	return ctx.Err()
}

// watch ends reading when the stream is another one than it was.
func watch(ctx context.Context, js jetstream.JetStream, was *jetstream.StreamInfo, end context.CancelCauseFunc) {
	_ = retry.Every(ctx, lookEvery, func(ctx context.Context) error {
		now, err := js.Stream(ctx, was.Config.Name)
		if err == nil && !now.CachedInfo().Created.Equal(was.Created) {
			end(ErrRemade)
		}
		return err
	}, func(error) {}) // whoever reads notices what is wrong
}

func handOver(
	ctx context.Context, it jetstream.MessagesContext, batch int, handle func(context.Context, []jetstream.Msg) error,
) error {
	incoming, failed := make(chan jetstream.Msg, 2*batch), make(chan error, 1)
	// A Next that is just making its consumer again, as it does when this process has
	// stood still, does not see Stop in time and goes on with the new one; it sees
	// the context.
	reading, end := context.WithCancel(ctx)
	go func() {
		defer close(incoming)
		for {
			msg, err := it.Next(jetstream.NextContext(reading))
			if err != nil {
				failed <- err
				return
			}
			incoming <- msg
		}
	}()
	defer func() {
		end()
		it.Stop()
		for range incoming { // until the reader has ended
		}
	}()
	msgs := make([]jetstream.Msg, 0, batch)
	for first := range incoming {
		msgs = append(msgs[:0], first)
		for more := true; more && len(msgs) < batch; {
			select {
			case msg, ok := <-incoming:
				if more = ok; ok {
					msgs = append(msgs, msg)
				}
			default:
				more = false
			}
		}
		if err := handle(ctx, msgs); err != nil {
			return err
		}
	}
	if err := <-failed; !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	return nil
}

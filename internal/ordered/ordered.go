// Package ordered reads a stream of NATS from its first message on, in order. It keeps no position: the client library
// makes its ordered consumer again when messages were missed.
package ordered

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Read hands the messages of a stream to handle, in order and in batches of what is there, of at most batch messages,
// until ctx ends or something fails. Up to five times as many are in memory. It returns nil when the connection is
// closed. The slice is used again after handle has returned.
func Read(
	ctx context.Context, js jetstream.JetStream, stream string, batch int,
	handle func(context.Context, []jetstream.Msg) error,
) error {
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	it, err := consumer.Messages(jetstream.PullMaxMessages(2*batch), jetstream.PullHeartbeat(2*time.Second),
		jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	stop := context.AfterFunc(ctx, it.Stop)
	defer stop()
	defer it.Stop()
	if err := handOver(ctx, it, batch, handle); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	return ctx.Err()
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

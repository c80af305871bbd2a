package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// read hands the messages of a stream to handle, in order and in batches of what is
// there, until ctx ends or something fails.
func (s *Service) read(
	ctx context.Context, name string, handle func(ctx context.Context, msgs []jetstream.Msg) error,
) error {
	consumer, err := s.js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	it, err := consumer.Messages(jetstream.PullMaxMessages(2*batchSize), jetstream.PullHeartbeat(2*time.Second),
		jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	stop := context.AfterFunc(ctx, it.Stop)
	defer stop()
	defer it.Stop()
	return s.handOver(ctx, name, it, handle)
}

func (s *Service) handOver(
	ctx context.Context, name string, it jetstream.MessagesContext, handle func(context.Context, []jetstream.Msg) error,
) error {
	incoming, failed := make(chan jetstream.Msg, 2*batchSize), make(chan error, 1)
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
	msgs := make([]jetstream.Msg, 0, batchSize)
	for first := range incoming {
		msgs = append(msgs[:0], first)
		for more := true; more && len(msgs) < batchSize; {
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
	err := <-failed
	if ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// lastOf is the sequence of the last message.
func lastOf(msgs []jetstream.Msg) (uint64, error) {
	meta, err := msgs[len(msgs)-1].Metadata()
	if err != nil {
		return 0, fmt.Errorf("read a message's position: %w", err)
	}
	return meta.Sequence.Stream, nil
}

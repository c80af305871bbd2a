package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"
)

// made returns the first n events as messages, so that making them is not
// measured.
func (b *bench) made(n int) ([]*nats.Msg, error) {
	all, err := b.history.messages(0, n)
	if err != nil {
		return nil, err
	}
	msgs := make([]*nats.Msg, n)
	for i, m := range all {
		msgs[i] = natsMessage(m)
	}
	return msgs, nil
}

// atomicBatches publishes as many messages a batch, and batches at a time, as
// "millrace emit" does.
func atomicBatches(msgs []*nats.Msg) publisher {
	return func(ctx context.Context, _ string, js jetstream.JetStream) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(4)
		for from := 0; from < len(msgs); from += 1000 {
			batch := msgs[from:min(from+1000, len(msgs))]
			g.Go(func() error {
				_, err := jetstreamext.PublishMsgBatch(ctx, js, batch, jetstreamext.BatchFlowControl{})
				return err
			})
		}
		return g.Wait()
	}
}

// asynchronous publishes one by one without waiting for each acknowledgement.
func asynchronous(msgs []*nats.Msg) publisher {
	return func(ctx context.Context, _ string, js jetstream.JetStream) error {
		for _, m := range msgs {
			if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
				return err
			}
		}
		select {
		case <-js.PublishAsyncComplete():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

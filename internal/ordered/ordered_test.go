package ordered

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// deaf is an iterator that does not hear Stop: as that of the library, when it is
// just making its consumer again.
type deaf struct{ jetstream.MessagesContext }

func (deaf) Stop() {}

// TestReadingEnds: reading a stream ends with its context, and with the first batch
// that cannot be handled, also while the iterator does not hear that it is stopped.
// A leader whose reading did not end would never lead again.
func TestReadingEnds(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	refused := errors.New("refused")
	read := func(ctx context.Context) <-chan error {
		c, err := js.OrderedConsumer(ctx, stream.Batches, jetstream.OrderedConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		it, err := c.Messages()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(it.Stop)
		ended := make(chan error, 1)
		go func() {
			ended <- handOver(ctx, deaf{it}, 10, func(context.Context, []jetstream.Msg) error { return refused })
		}()
		return ended
	}
	await := func(ended <-chan error, want error) {
		t.Helper()
		select {
		case err := <-ended:
			if !errors.Is(err, want) {
				t.Errorf("reading ended with %v, want %v", err, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("reading has not ended with %v", want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := read(ctx)
	cancel()
	await(ended, context.Canceled)

	if _, err := js.Publish(t.Context(), stream.BatchCollected, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	await(read(t.Context()), refused)
}

// TestRemade: reading a stream that was deleted and made anew ends, so that its new messages are read, though it has had
// more messages before.
func TestRemade(t *testing.T) {
	lookEvery = 50 * time.Millisecond
	js := natstest.Start(t, stream.Config{}).JetStream()
	fill := func(n int) {
		t.Helper()
		for range n {
			if _, err := js.Publish(t.Context(), stream.BatchCollected, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	read := 0
	err := Read(ctx, js, stream.Batches, 10, func(_ context.Context, msgs []jetstream.Msg) error {
		if read += len(msgs); read == 5 {
			if err := js.DeleteStream(ctx, stream.Batches); err != nil {
				t.Error(err)
			}
			if _, err := stream.Missing(ctx, js, true); err != nil {
				t.Error(err)
			}
			fill(3)
		}
		return nil
	})
	if !errors.Is(err, ErrRemade) {
		t.Errorf("reading ended with %v after %d messages, want %v", err, read, ErrRemade)
	}
}

// TestRead: messages come in the order of the stream, each once, in batches of a size.
func TestRead(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	for range 95 {
		if _, err := js.Publish(t.Context(), stream.BatchCollected, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	next, all := uint64(1), errors.New("all have come")
	err := Read(t.Context(), js, stream.Batches, 10, func(_ context.Context, msgs []jetstream.Msg) error {
		if len(msgs) > 10 {
			t.Errorf("%d messages at once", len(msgs))
		}
		for _, m := range msgs {
			if about, err := m.Metadata(); err != nil || about.Sequence.Stream != next {
				t.Errorf("%+v, %v, want %d", about, err, next)
			}
			if next++; next > 95 {
				return all
			}
		}
		return nil
	})
	if !errors.Is(err, all) {
		t.Error(err)
	}
}

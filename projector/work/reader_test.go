package work_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/projector/work"
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
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.stop()
	s, err := work.New(work.Config{}, h.deps(h.nc, h.store, prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	read := func(ctx context.Context) <-chan error {
		c, err := h.js.OrderedConsumer(ctx, stream.Shards, jetstream.OrderedConsumerConfig{})
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
			ended <- s.HandOver(ctx, stream.Shards, deaf{it},
				func(context.Context, []jetstream.Msg) error { return refused })
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

	h.report("shard-splitter", "retry", `{"filename":"a","shard":0}`)
	await(read(t.Context()), refused)
}

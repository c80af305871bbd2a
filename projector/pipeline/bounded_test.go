package pipeline_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestBounded holds invariant 9: while ClickHouse takes nothing, a projector
// takes of the stream what it may hold, and leaves the rest there.
func TestBounded(t *testing.T) {
	const (
		size  = 1 << 20 // bytes of a message
		batch = 2       // messages of one
		// One batch is being written and one is full. What is read ahead is up
		// to 32 MiB at each of three places: it is being folded, it comes next,
		// or it has just arrived.
		most = 2*batch + 3*32
	)
	b := newBench(t)
	must(t, b.db.Exec(t.Context(), "ALTER TABLE "+engine.Rows("events")+" MODIFY SETTING table_readonly = 1"))
	b.publish(b.event(rand.New(rand.NewPCG(1, 1))))
	for range most + 40 {
		b.publish("events.crawled.00", bytes.Repeat([]byte("x"), size))
	}
	stop := b.start(func(c *pipeline.Config) { c.BatchRows = batch })
	defer stop()
	if taken := b.taken(); taken > most {
		t.Errorf("of %d messages %d were taken, want %d at most", b.truth.last, taken, most)
	}
	must(t, b.db.Exec(t.Context(), "ALTER TABLE "+engine.Rows("events")+" RESET SETTING table_readonly"))
	b.reach(b.truth.last)
	b.check()
}

// taken waits until the projector asks the stream for nothing, at ten looks one
// after the other, and returns how many messages it has been given.
func (b *bench) taken() (given uint64) {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), stream.Events)
	must(b.t, err)
	timeout := time.After(time.Minute)
	for quiet := 0; quiet < 10; {
		waiting := 1
		consumers := s.ListConsumers(b.t.Context())
		for c := range consumers.Info() {
			given, waiting = c.Delivered.Consumer, c.NumWaiting
		}
		must(b.t, consumers.Err())
		if quiet++; waiting > 0 || given == 0 {
			quiet = 0
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-timeout:
			b.t.Fatalf("the projector still asks for more: it was given %d messages", given)
		}
	}
	return given
}

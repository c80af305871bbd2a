package pipeline_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestShorterNATS: a projector refuses a stream that has lost what is folded of
// it, as a NATS server may that loses its power, also when new messages have got
// those sequences, and whatever the bucket has lost. Moved on as docs/recovery.md says,
// nothing of what is on the stream is left out or counted twice.
func TestShorterNATS(t *testing.T) {
	slowtest.Mark(t)
	pipeline.LeaderLag(t, time.Nanosecond)
	const folded, left = 100, 60
	for name, c := range map[string]struct {
		published int    // since
		position  uint64 // that the bucket has kept
	}{
		"shorter than the views": {20, left},
		"grown again":            {50, left},
		"the bucket whole":       {50, folded},
		"the bucket alone":       {0, left},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			rng := rand.New(rand.NewPCG(7, 1))
			var sent [][2]string
			event := func() {
				subject, text := b.event(rng)
				b.publish(subject, text)
				sent = append(sent, [2]string{subject, string(text)})
			}
			for range folded {
				event()
			}
			stop := b.start(nil)
			b.reach(folded)
			stop()

			if c.published > 0 {
				must(t, b.js.DeleteStream(t.Context(), stream.Events))
				must(t, stream.Ensure(t.Context(), b.js, stream.Config{DedupWindow: 100 * time.Millisecond}))
				for _, m := range sent[:left] {
					b.publish(m[0], []byte(m[1]))
				}
			}
			b.decide(c.position, c.position)
			for range c.published {
				event()
			}
			b.refused("folded up to sequence 100 of EVENTS")

			kept := sent[folded:]
			s, err := b.js.Stream(t.Context(), stream.Events)
			must(t, err)
			must(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(folded+1)))
			for _, m := range kept {
				b.publish(m[0], []byte(m[1]))
			}
			stop = b.start(nil)
			event()
			b.reach(b.truth.last)
			stop()
			b.check()
		})
	}
}

// refused runs a projector that has to end with an error.
func (b *bench) refused(why string) {
	b.t.Helper()
	p, err := pipeline.New(pipeline.Config{
		Stages: b.stages, Dir: b.dir, MinInterval: time.Millisecond,
		SlotGroups: b.groups,
	},
		b.nc, b.ch, prometheus.NewRegistry(), embeddedtest.Log(b.t))
	must(b.t, err)
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	if err := p.Run(ctx); err == nil || !strings.Contains(err.Error(), why) {
		b.t.Errorf("the projector ends with %v, want %s", err, why)
	}
}

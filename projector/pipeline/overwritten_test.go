package pipeline_test

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestOverwrittenPosition holds invariant 3 when something else is written over
// the position, while a projector folds and while none does: it goes on from the
// position before, and counts each event once.
func TestOverwrittenPosition(t *testing.T) {
	slowtest.Mark(t)
	b := newBench(t)
	rng, sent := rand.New(rand.NewPCG(6, 1)), [][2]string{}
	kv, err := b.js.KeyValue(t.Context(), stream.Checkpoints)
	must(t, err)
	for _, damage := range []func(){
		func() { _, err := kv.PutString(t.Context(), slots.Group{}.Key(), "garbage"); must(t, err) },
		func() { must(t, kv.Delete(t.Context(), slots.Group{}.Key())) },
		func() { _, err := kv.PutString(t.Context(), slots.Key, "garbage"); must(t, err) },
	} {
		stop := b.start(nil)
		b.history(rng, 50, &sent)
		b.reach(b.truth.last)
		damage()
		b.history(rng, 50, &sent)
		b.reach(b.truth.last)
		stop()
		damage()
		b.lives(rng, 50, &sent)
	}
	b.check()
}

package pipeline_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"
)

func (b *bench) bucket() jetstream.KeyValue {
	b.t.Helper()
	kv, err := b.js.KeyValue(b.t.Context(), stream.Checkpoints)
	must(b.t, err)
	return kv
}

// regroup asks for another number of slot groups.
func (b *bench) regroup(groups uint32) {
	b.t.Helper()
	underWay, err := assignment.Regroup(b.t.Context(), b.bucket(), groups)
	must(b.t, err)
	if !underWay {
		b.t.Fatalf("%d slot groups were not asked for", groups)
	}
}

// grouped waits until so many groups share the slots and have owners, and
// everything up to a sequence is durable.
func (b *bench) grouped(groups int, seq uint64) {
	b.t.Helper()
	kv := b.bucket()
	reached := map[uint32]bool{}
	b.watch("other slot groups", func(_ string, _ funnel.Checkpoint) bool {
		l, err := assignment.ReadLayout(b.t.Context(), kv)
		must(b.t, err)
		if l.Next > 0 || len(l.Current()) != groups {
			return false
		}
		clear(reached)
		for _, g := range l.Current() {
			entry, err := kv.Get(b.t.Context(), g.Key())
			if errors.Is(err, jetstream.ErrKeyNotFound) {
				return false
			}
			must(b.t, err)
			r, err := funnel.ParseCheckpoint(entry.Value())
			must(b.t, err)
			reached[g.ID] = max(r.From, r.CaughtUp) >= seq && r.From == r.To && r.Owner != ""
		}
		for _, is := range reached {
			if !is {
				return false
			}
		}
		return true
	})
}

// TestRegroup holds the invariants of package slots, and all others with them,
// while one slot group becomes four, two and one again, with repeats of what
// earlier groups have counted, events under way, some that no slot is for, and
// projectors that come, go, and begin with empty key stores.
func TestRegroup(t *testing.T) {
	slowtest.Mark(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t)
	var sent [][2]string
	dirs := []string{t.TempDir(), t.TempDir()}
	start := func(i int) func() {
		return b.start(func(c *pipeline.Config) {
			c.Dir, c.Lease, c.BatchRows = dirs[i], time.Second, 20+rng.IntN(200)
		})
	}
	stops := []func(){start(0), start(1)}
	b.history(rng, 150, &sent)
	for _, groups := range []uint32{4, 2, 1} {
		b.regroup(groups)
		b.history(rng, 100, &sent)
		i := rng.IntN(len(stops))
		stops[i]() // with what it has of the change
		b.publish("events.crawled.stray", []byte("{}"))
		stops[i] = start(i)
		b.history(rng, 50, &sent)
		b.grouped(int(groups), b.truth.last)
	}
	b.check()
	l, err := assignment.ReadLayout(t.Context(), b.bucket())
	must(t, err)
	for _, dir := range dirs {
		for _, g := range l.All()[:l.Current()[0].ID] {
			for _, name := range []string{"keys", "keys-" + g.Key()[len("funnel."):]} {
				if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
					t.Errorf("the key store of group %d is left in %s", g.ID, dir)
				}
			}
		}
	}
	for _, stop := range stops {
		stop()
	}
}

// TestRegroupTakenOver: while one slot group becomes three and three become four, a
// group is closed over the head of an owner that does not know of changes and goes
// on, with a batch decided that it never completes.
func TestRegroupTakenOver(t *testing.T) {
	slowtest.Mark(t)
	b := newBench(t)
	rng := rand.New(rand.NewPCG(5, 1))
	var sent [][2]string
	kv := b.bucket()
	lease := func(c *pipeline.Config) { c.Lease = 400 * time.Millisecond }
	stop := b.start(lease)
	b.history(rng, 100, &sent)
	b.reach(b.truth.last)
	for _, groups := range []uint32{3, 4} {
		stop()
		l, err := assignment.ReadLayout(t.Context(), kv)
		must(t, err)
		group := l.Current()[0] // it reads all subjects, so its batch may end anywhere
		old, err := assignment.OpenLease(t.Context(), kv, group, "old")
		must(t, err)
		must(t, old.Take(t.Context()))
		b.history(rng, 30, &sent)
		must(t, old.Decide(t.Context(), old.Record().From, b.truth.last, ""))
		b.history(rng, 50, &sent)
		b.regroup(groups)
		stop = b.start(lease)
		for alive := true; alive; { // it keeps its group for as long as it can
			err := old.Decide(t.Context(), old.Record().From, old.Record().To, "")
			if err == nil {
				err = old.Take(t.Context())
			}
			if alive = err == nil; !alive && !errors.Is(err, fold.ErrLost) {
				t.Fatal(err)
			}
		}
		b.grouped(int(groups), b.truth.last)
	}
	stop()
	b.check()
}

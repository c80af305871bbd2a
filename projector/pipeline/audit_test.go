package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace/projector/pipeline"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// soon has a projector audit all the time, also where an audit takes long.
func soon(c *pipeline.Config) { c.AuditEvery, c.AuditShare = 10*time.Millisecond, 1 }

// awaitBaseline waits until the checkpoint of the first group says so of its baseline. It may
// have up to ten numbers more: an audit may find each part of a table changed before the next.
func (b *bench) awaitBaseline(want contract.Baseline) {
	b.t.Helper()
	b.watch(fmt.Sprintf("%+v", want), func(_ string, r contract.Checkpoint) bool {
		got := r.View.Baseline
		if got.Number > want.Number && got.Number <= want.Number+10 {
			got.Number = want.Number
		}
		return got == want
	})
}

// remove takes a third of the events out of ClickHouse, and returns how many these are.
func (b *bench) remove() (n uint64) {
	b.t.Helper()
	ctx := b.t.Context()
	must(b.t, b.db.Exec(ctx,
		"CREATE TABLE kept ENGINE = MergeTree ORDER BY seq AS SELECT * FROM events WHERE seq % 3 = 0"))
	must(b.t, b.db.QueryRow(ctx, "SELECT count() FROM kept").Scan(&n))
	must(b.t, b.db.Exec(ctx, "DELETE FROM "+engine.Rows("events")+" WHERE seq % 3 = 0"))
	return n
}

// TestBaseline holds invariant 11: a group that is folded notices that ClickHouse lacks
// what it has counted, and that it is there again. It goes on all the time, and no repeat
// counts.
func TestBaseline(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(16, 1))
	var sent [][2]string
	stop := b.start(soon)
	defer stop()
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	missing := b.remove()
	b.awaitBaseline(contract.Baseline{Number: 1, Missing: missing})
	b.history(rng, 50, &sent)
	b.reach(b.truth.last)
	must(t, b.db.Exec(t.Context(), "INSERT INTO events SELECT * FROM kept"))
	b.awaitBaseline(contract.Baseline{Number: 2})
	for _, m := range sent {
		b.publish(m[0], []byte(m[1]))
	}
	b.reach(b.truth.last)
	stop()
	b.check()
}

// TestAcceptedBaseline holds invariant 11 when an operator accepts what ClickHouse has: what
// is missing counts again, also for a projector that has counted it.
func TestAcceptedBaseline(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(16, 2))
	var sent [][2]string
	stop := b.start(soon)
	defer stop()
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	b.awaitBaseline(contract.Baseline{})
	missing := b.remove()
	b.awaitBaseline(contract.Baseline{Number: 1, Missing: missing})
	b.accept()
	b.awaitBaseline(contract.Baseline{Number: 2, Accepted: 1})
	for _, m := range sent {
		b.publish(m[0], []byte(m[1]))
	}
	b.reach(b.truth.last)
	stop()
	var counted uint64
	must(t, b.db.QueryRow(t.Context(), "SELECT uniqExact(identity) FROM events").Scan(&counted))
	if counted != uint64(len(b.truth.seen)) {
		t.Errorf("%d events are counted of %d", counted, len(b.truth.seen))
	}
	if _, err := os.Stat(b.dir + "/keys"); !os.IsNotExist(err) {
		t.Errorf("the key store from before is still there: %v", err)
	}
}

// TestBaselineOfStill holds invariant 11 for a group that has stopped folding.
func TestBaselineOfStill(t *testing.T) {
	b := newBench(t)
	var sent [][2]string
	b.lives(rand.New(rand.NewPCG(16, 3)), 100, &sent)
	missing := b.remove()
	must(t, os.RemoveAll(b.dir+"/keys"))
	stop := b.start(soon)
	defer stop()
	b.awaitBaseline(contract.Baseline{Number: 1, Missing: missing})
	must(t, b.db.Exec(t.Context(), "INSERT INTO events SELECT * FROM kept"))
	b.awaitBaseline(contract.Baseline{Number: 2})
	stop()
	b.check()
}

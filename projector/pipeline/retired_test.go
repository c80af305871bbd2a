package pipeline_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/pipeline/retention"
)

// TestRetiredRepeats holds invariant 2 for events that are in no table any more:
// a key store that is filled after they have been retired and removed knows
// them, also that of another number of slot groups.
func TestRetiredRepeats(t *testing.T) {
	slowtest.Mark(t)
	b := newBench(t)
	rng := rand.New(rand.NewPCG(8, 1))
	var sent [][2]string
	stop := b.start(nil)
	b.history(rng, 400, &sent)
	b.reach(b.truth.last)
	stop()
	k, err := retention.New(retention.Config{Months: 2, Topology: engine.Topology()}, b.db, b.js, prometheus.NewRegistry(),
		embeddedtest.Log(t))
	must(t, err)
	must(t, k.Round(t.Context()))
	// As if that were a while ago, for readers have some minutes to notice.
	must(t, b.db.Exec(t.Context(), "INSERT INTO retired SELECT month, upto, events, at - 3600 FROM retired"))
	must(t, k.Round(t.Context()))
	var left, retired uint64
	must(t, b.db.QueryRow(
		t.Context(), "SELECT (SELECT count() FROM events), (SELECT count() FROM retired_identities)",
	).Scan(&left, &retired))
	if retired == 0 || left+retired != uint64(len(b.truth.seen)) {
		t.Fatalf("%d events are left and %d retired of %d", left, retired, len(b.truth.seen))
	}
	again := func() {
		for _, m := range sent {
			b.publish(m[0], []byte(m[1]))
		}
	}
	must(t, os.RemoveAll(b.dir+"/keys"))
	stop = b.start(nil)
	again()
	b.reach(b.truth.last)
	b.regroup(3)
	again()
	b.grouped(3, b.truth.last)
	stop()
	b.checkFunnel()
	var counted uint64
	must(t, b.db.QueryRow(t.Context(), "SELECT sum(events) FROM daily_totals WHERE dimension = ''").Scan(&counted))
	if counted != uint64(len(b.truth.seen)) {
		t.Errorf("%d events are counted of %d", counted, len(b.truth.seen))
	}
}

package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// TestShards folds a random history over a ClickHouse cluster. One shard is killed in the middle: nothing is
// confirmed that it does not have, and with it back everything counts once. Then the slot groups change.
func TestShards(t *testing.T) {
	slowtest.Mark(t)
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { testShards(t, n) })
	}
}

func testShards(t *testing.T, n int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	shards := embeddedtest.StartShards(t, n)
	b := newBenchOn(t, shards.ClickHouse())
	refused := make(chan struct{}, 1)
	b.hear = func(text string) {
		if strings.Contains(text, "ALL_CONNECTION_TRIES_FAILED") || strings.Contains(text, "NETWORK_ERROR") {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
	}
	start := func() func() {
		return b.start(func(c *pipeline.Config) { c.BatchRows = 20 + rng.IntN(200) })
	}
	var sent [][2]string
	stop := start()
	b.history(rng, 300, &sent)
	b.reach(b.truth.last)
	b.check()
	for i := range n {
		if b.held(shards.Options(i, b.ch.Auth.Database)) == 0 {
			t.Errorf("shard %d has no events", i)
		}
	}

	shards.Kill(t, n-1)
	b.history(rng, 200, &sent)
	select {
	case <-refused:
	case <-time.After(time.Minute):
		t.Fatal("the projector does not say that a shard is away")
	}
	if at := b.checkpoint(); at.From >= b.truth.last {
		t.Errorf("everything up to %d is confirmed without a shard", at.From)
	}
	if rng.IntN(2) == 0 { // the batch is completed by another process
		stop()
		stop = start()
	}
	shards.Start(t, n-1)
	b.reach(b.truth.last)
	b.check()

	b.regroup(2)
	b.history(rng, 100, &sent)
	b.grouped(2, b.truth.last)
	stop()
	b.check()
}

// held is how many events a shard has itself.
func (b *bench) held(shard *clickhouse.Options) (n uint64) {
	b.t.Helper()
	db, err := clickhouse.Open(shard)
	must(b.t, err)
	defer db.Close()
	must(b.t, db.QueryRow(b.t.Context(), "SELECT count() FROM events_local").Scan(&n))
	return n
}

// checkpoint is that of the only slot group.
func (b *bench) checkpoint() funnel.Checkpoint {
	b.t.Helper()
	entry, err := b.bucket().Get(b.t.Context(), "funnel.0")
	must(b.t, err)
	c, err := funnel.ParseCheckpoint(entry.Value())
	must(b.t, err)
	return c
}

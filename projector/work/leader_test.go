package work_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/projector/work"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// networked is a store on connections of its own, over a network that can fail.
func (h *house) networked() (*tracking.Store, *embeddedtest.Network) {
	h.Helper()
	cfg, network := h.store.Pool().Config(), new(embeddedtest.Network)
	network.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(h.Context(), cfg)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(pool.Close)
	store, _, err := open(h.T, h.nc, pool)
	if err != nil {
		h.Fatal(err)
	}
	return store, network
}

// TestStalledLeader: a stalled leader whose connection stays as it is loses the lead, and does
// no harm when it goes on (invariant 2).
func TestStalledLeader(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, quick)
	store, network := h.networked()
	h.stop()
	registry := prometheus.NewRegistry()
	first, err := work.New(work.Config{Streams: stream.WorkConfig{AckWait: h.ackWait}},
		h.deps(h.nats.Connect(), store, registry))
	if err != nil {
		t.Fatal(err)
	}
	h.run(first.Run)
	h.until("its lead", func() (string, bool) { return "", leading(t, registry) })
	h.file("a", 3)
	h.until("3 messages", func() (string, bool) { return "", h.messages() == 3 })
	thaw := network.Freeze()
	t.Cleanup(thaw)
	h.serve()
	h.file("b", 3)
	h.until("6 messages", func() (string, bool) { return fmt.Sprint(h.messages()), h.messages() == 6 })
	thaw()
	h.file("c", 3)
	for _, m := range h.pull(shard.Splitter, 9) {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	h.await(shard.Splitter, item.Done, 9)
	if got := h.moves(shard.Splitter); got["start"] != 9 || got["done"] != 9 {
		t.Errorf("history %v", got)
	}
}

func leading(t *testing.T, registry *prometheus.Registry) bool {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == "millrace_work_leading" {
			return f.GetMetric()[0].GetGauge().GetValue() == 1
		}
	}
	return false
}

// TestOvertakenReader: a process that has slept with reports in its hands,
// while another one has applied them, applies none of them again, and holds
// none for refused (invariant 8).
func TestOvertakenReader(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 1)
	h.stop()
	s, err := work.New(work.Config{}, h.deps(h.nc, h.store, prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	var readers [2]func(context.Context, []jetstream.Msg) error
	for i := range readers {
		if readers[i], err = s.ReadReports(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	move := func(moves ...item.Move) {
		t.Helper()
		for _, m := range moves {
			if r, err := h.store.Apply(t.Context(), shard.Splitter, m,
				[]queue.Command{{Name: "a"}}); err != nil || r[0].Outcome != item.Changed {
				t.Fatalf("%s: %+v, %v", m, r, err)
			}
		}
	}
	h.report("shard-splitter", "retry", `{"filename":"a","shard":0}`)
	retry := h.reports()
	move(item.Start, item.Fail)
	if err := readers[0](t.Context(), retry); err != nil {
		t.Fatal(err)
	}
	move(item.Start)
	for _, next := range []item.Move{item.Fail, item.Retry} { // of what is started, and then failed, and then new
		if err := readers[1](t.Context(), retry); !errors.Is(err, work.ErrOvertaken) {
			t.Errorf("before %s: %v", next, err)
		}
		move(next)
	}
	if got := h.moves(shard.Splitter); got["retry"] != 2 {
		t.Errorf("history %v", got)
	}
	if s, err := h.js.Stream(t.Context(), stream.DLQ); err != nil || s.CachedInfo().State.Msgs != 0 {
		t.Errorf("dead letters %+v, %v", s.CachedInfo().State, err)
	}
}

// reports returns the first report as it is read.
func (h *house) reports() []jetstream.Msg {
	h.Helper()
	c, err := h.js.OrderedConsumer(h.Context(), stream.Shards, jetstream.OrderedConsumerConfig{})
	if err != nil {
		h.Fatal(err)
	}
	m, err := c.Next()
	if err != nil {
		h.Fatal(err)
	}
	return []jetstream.Msg{m}
}

package work_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/projector/work"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// quick is the time of a silent daemon in tests that wait for it.
const quick = 2 * time.Second

// house is one installation: servers, the service, and a file's worth of items.
type house struct {
	*testing.T
	nats  *natstest.Server
	js    jetstream.JetStream
	nc    *nats.Conn
	store *tracking.Store
	hands *handout.Handout
	stop  func() // the service

	ackWait time.Duration
}

func newHouse(t *testing.T, ackWait time.Duration) *house {
	t.Helper()
	h := &house{T: t, ackWait: ackWait, nats: natstest.Start(t, stream.Config{})}
	h.nc = h.nats.Connect()
	var err error
	if h.js, err = jetstream.New(h.nc); err != nil {
		t.Fatal(err)
	}
	pool := engine.Pool(t, queue.Configure)
	if h.store, h.hands, err = open(t, h.nc, pool); err != nil {
		t.Fatal(err)
	}
	trackingtest.CheckMoves(t, pool, h.store.Queues())
	h.run(h.store.Queues().Run)
	h.serve()
	h.until("the streams", func() (string, bool) {
		_, err := h.js.Consumer(t.Context(), stream.Work, shard.Sender.String())
		return fmt.Sprint(err), err == nil
	})
	return h
}

// open makes the stores and a handout on a pool.
func open(t *testing.T, nc *nats.Conn, pool *pgxpool.Pool) (*tracking.Store, *handout.Handout, error) {
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{tracking.Kind{}, &userqueue.Kind{}}}, pool,
		embeddedtest.Log(t))
	if err != nil {
		return nil, nil, err
	}
	hands, err := handout.New(nc, queues, stream.WorkConfig{})
	if err != nil {
		return nil, nil, err
	}
	store, err := tracking.New(tracking.Config{}, queues, embeddedtest.Log(t))
	return store, hands, err
}

// deps are what a service needs, on a connection and a store.
func (h *house) deps(nc *nats.Conn, store *tracking.Store, registry *prometheus.Registry) work.Deps {
	return work.Deps{
		NATS: nc, Store: store.Queues(), Handout: h.hands, Shards: store, Registry: registry,
		Log: embeddedtest.Log(h),
	}
}

// run runs a part until the test or the returned function ends it.
func (h *house) run(part func(context.Context) error) func() { return embeddedtest.Go(h, part) }

// serve runs a service; several may.
func (h *house) serve() *work.Service {
	h.Helper()
	s, err := work.New(work.Config{Streams: stream.WorkConfig{AckWait: h.ackWait}, Poll: 20 * time.Millisecond},
		h.deps(h.nc, h.store, prometheus.NewRegistry()))
	if err != nil {
		h.Fatal(err)
	}
	h.stop = h.run(s.Run)
	return s
}

// file registers a file whose shards are ready for the first stage.
func (h *house) file(name string, shards int) {
	h.Helper()
	list := make([]int32, shards)
	for i := range list {
		list[i] = int32(i)
	}
	if _, err := h.store.Register(h.Context(), []tracking.Registration{{Filename: name, Shards: list}}); err != nil {
		h.Fatal(err)
	}
	if _, err := h.store.FinishIngest(h.Context(), name, queue.Command{}); err != nil {
		h.Fatal(err)
	}
}

// pull is what a plain daemon does: it waits for n messages of a stage.
func (h *house) pull(stage shard.Stage, n int) []jetstream.Msg {
	h.Helper()
	c, err := h.js.Consumer(h.Context(), stream.Work, stage.String())
	if err != nil {
		h.Fatal(err)
	}
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(20*time.Second))
	if err != nil {
		h.Fatal(err)
	}
	var msgs []jetstream.Msg
	for m := range batch.Messages() {
		msgs = append(msgs, m)
	}
	if len(msgs) != n {
		h.Fatalf("pulled %d messages of %d: %v", len(msgs), n, batch.Error())
	}
	return msgs
}

func (h *house) item(m jetstream.Msg) stream.WorkItem {
	h.Helper()
	item, err := stream.ParseWorkItem(m.Data())
	if err != nil {
		h.Fatal(err)
	}
	return item
}

// statuses counts the items of a stage by status.
func (h *house) statuses(stage shard.Stage) map[string]int {
	h.Helper()
	return h.counts(fmt.Sprintf("SELECT %s_status::text, count(*) FROM millrace.pipeline_tracking GROUP BY 1",
		stage.Column()))
}

// await waits until as many items of a stage have a status.
func (h *house) await(stage shard.Stage, status item.Status, n int) {
	h.Helper()
	h.until(fmt.Sprintf("%d items %s at %s", n, status, stage), func() (string, bool) {
		c := h.statuses(stage)
		if c[status.String()] == n {
			return "", true
		}
		return fmt.Sprint(c, h.claims()), false
	})
}

// claims says of some started items, of all stages, who has them and how.
func (h *house) claims() map[string]int {
	h.Helper()
	return h.counts(`SELECT format('item %s of generation %s at stage %s, plain %s, given %s ago, until %s',
		item_id, generation, stage, plain, now() - given_at, lease_until - now()), generation FROM millrace.claim
		LIMIT 5`)
}

// until polls a condition that has no signal of its own, until nothing has changed
// for a minute.
func (h *house) until(what string, holds func() (string, bool)) {
	h.Helper()
	now, ok := holds()
	for last, end := now, time.Now().Add(time.Minute); !ok; now, ok = holds() {
		if now != last {
			last, end = now, time.Now().Add(time.Minute)
		}
		if time.Now().After(end) {
			h.Fatalf("waited for %s: %s", what, now)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// messages is the number of messages on the work stream, and -1 while NATS does not
// answer.
func (h *house) messages() int {
	s, err := h.js.Stream(h.Context(), stream.Work)
	if err != nil {
		return -1
	}
	return int(s.CachedInfo().State.Msgs)
}

// moves counts the moves in the history at a stage.
func (h *house) moves(stage shard.Stage) map[string]int {
	h.Helper()
	return h.counts("SELECT move::text, count(*) FROM millrace.history WHERE stage = $1 GROUP BY 1", int16(stage))
}

// counts reads rows of a name and a number.
func (h *house) counts(sql string, args ...any) map[string]int {
	h.Helper()
	rows, err := h.store.Pool().Query(h.Context(), sql, args...)
	if err != nil {
		h.Fatal(err)
	}
	counts, name, n := map[string]int{}, "", 0
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		counts[name] = n
		return nil
	}); err != nil {
		h.Fatal(err)
	}
	return counts
}

func testLog(t *testing.T) *slog.Logger { return embeddedtest.Log(t) }

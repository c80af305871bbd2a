package work_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/pressly/goose/v3"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/postgres"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// released is the last migration before user-defined queues.
const released = 51

// fillReleased makes what the released program has written: shards 0 to 9 of a
// file, each in a state of its own at the stage shard-splitter.
const fillReleased = `
INSERT INTO millrace.file (filename) VALUES ('a');
INSERT INTO millrace.pipeline_tracking (shard, filename, event_ingest_status, shard_splitter_status,
shard_splitter_generation,
	shard_splitter_attempts, shard_splitter_worker, shard_splitter_error, priority)
VALUES
	(0, 'a', 'done', 'new', 1, 0, NULL, NULL, 3),         -- ready, and not announced
	(1, 'a', 'done', 'new', 1, 0, NULL, NULL, 0),         -- ready, and on the stream
	(2, 'a', 'done', 'started', 2, 1, 'w', NULL, 0),      -- with a worker, with a lease
	(3, 'a', 'done', 'started', 2, 1, 'nats', NULL, 0),   -- with a plain daemon
	(4, 'a', 'done', 'new', 3, 1, 'w', 'later', 0),       -- delayed
	(5, 'a', 'done', 'failed', 2, 1, 'w', 'broken', 0),   -- failed
	(6, 'a', 'done', 'failed', 40, 20, 'w', 'dead', 0),   -- dead
	(7, 'a', 'done', 'done', 2, 1, 'w', NULL, 0),         -- done, and ready at the next stage
	(8, 'a', 'started', 'new', 1, 0, NULL, NULL, 0),      -- waiting for the stage before
	(9, 'a', 'done', 'new', 3, 1, 'w', 'again', 0);       -- ready again, announced twice and not yet published
INSERT INTO millrace.ready (item_id, generation, stage, priority)
	SELECT id, shard_splitter_generation, 1, priority FROM millrace.pipeline_tracking WHERE shard IN (0, 1, 9)
	UNION ALL SELECT id, 1, 2, 0 FROM millrace.pipeline_tracking WHERE shard = 7;
INSERT INTO millrace.outbox (item_id, generation, stage)
	SELECT id, 1, 1 FROM millrace.pipeline_tracking WHERE shard IN (0, 9)
	UNION ALL SELECT id, 3, 1 FROM millrace.pipeline_tracking WHERE shard = 9
	UNION ALL SELECT id, 1, 2 FROM millrace.pipeline_tracking WHERE shard = 7;
INSERT INTO millrace.claim (item_id, lease_until, generation, stage)
	SELECT id, CASE shard WHEN 2 THEN now() + interval '1 minute' END, 2, 1 FROM millrace.pipeline_tracking
	WHERE shard IN (2, 3);
INSERT INTO millrace.delayed (item_id, due_at, generation, stage)
	SELECT id, now() + interval '1 second', 3, 1 FROM millrace.pipeline_tracking WHERE shard = 4;
INSERT INTO millrace.failed (item_id, stage, dead) SELECT id, 1, shard = 6 FROM millrace.pipeline_tracking
WHERE shard IN (5, 6);
INSERT INTO millrace.history (item_id, attempt, stage, move, status, worker)
	SELECT id, 1, 1, 'start', 'started', shard_splitter_worker FROM millrace.pipeline_tracking
	WHERE shard_splitter_attempts > 0 ORDER BY id;
INSERT INTO millrace.history (item_id, attempt, stage, move, status, worker)
	SELECT id, 1, 1, 'done', 'done', 'w' FROM millrace.pipeline_tracking WHERE shard = 7;
INSERT INTO millrace.tally (kind, key, n)
	SELECT stage * 10 + array_position(enum_range(NULL::millrace.stage_status), status) - 1, 0, count(*)
	FROM millrace.pipeline_tracking AS t, LATERAL (VALUES (0, event_ingest_status), (1, shard_splitter_status),
		(2, shard_worker_status), (3, mysql_sender_status)) AS u (stage, status) GROUP BY 1
	UNION ALL VALUES (14, 0, 3), (15, 0, 1), (16, 0, 1), (24, 0, 1)
	UNION ALL SELECT 100, shard, 1 FROM millrace.pipeline_tracking;
INSERT INTO millrace.work_batch (first_seq, last_seq, items, stages, generations)
	SELECT 1, 2, array_agg(id ORDER BY shard), '{1,1}', '{1,1}' FROM millrace.pipeline_tracking WHERE shard IN (1, 3)`

// openReleased makes a house whose database is as the released program left it.
// Nothing runs.
func openReleased(t *testing.T) (*house, *sql.DB) {
	t.Helper()
	dsn := engine.DSN(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(t.Context(), "DROP SCHEMA millrace CASCADE; CREATE SCHEMA millrace"); err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("../../schemas/postgres/migrations"),
		goose.WithTableName("millrace.schema_version"), goose.WithAllowOutofOrder(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), released); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), fillReleased); err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	queue.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	h := &house{T: t, ackWait: time.Minute, nats: natstest.Start(t, stream.Config{})}
	h.nc = h.nats.Connect()
	if h.js, err = jetstream.New(h.nc); err != nil {
		t.Fatal(err)
	}
	if h.store, h.hands, err = open(t, h.nc, pool); err != nil {
		t.Fatal(err)
	}
	return h, db
}

// state is all that is said about items, without a column that a migration adds.
func (h *house) state() map[string]int {
	h.Helper()
	return h.counts(`SELECT (to_jsonb(t) - 'trace_parent')::text, 1 FROM millrace.pipeline_tracking AS t
		UNION ALL SELECT 'history ' || t::text, 1 FROM millrace.history AS t
		UNION ALL SELECT 'failed ' || t::text, 1 FROM millrace.failed AS t
		UNION ALL SELECT 'delayed ' || t::text, 1 FROM millrace.delayed AS t
		UNION ALL SELECT 'ready ' || t::text, 1 FROM millrace.ready AS t
		UNION ALL SELECT format('claim %s %s %s %s', item_id, lease_until, generation, stage), 1 FROM millrace.claim
		UNION ALL SELECT format('tally %s %s', kind, key), n::integer FROM millrace.tally
		UNION ALL SELECT 'batch ' || t::text, 1 FROM millrace.work_batch AS t`)
}

// TestUpgrade: a database of the released program, with an item in every state, is
// migrated. Every item keeps its state, its history and its generation; who has
// one goes on, what is ready is handed out, and everything ends once.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	h, db := openReleased(t)
	if err := stream.EnsureWork(t.Context(), h.js, []string{"shard-splitter", "shard-worker", "mysql-sender"},
		stream.WorkConfig{}); err != nil {
		t.Fatal(err)
	}
	ids := h.counts("SELECT shard::text, id FROM millrace.pipeline_tracking")
	for _, n := range []int{1, 3} { // in the order of work_batch
		body, err := json.Marshal(stream.WorkItem{
			ID: int64(ids[fmt.Sprint(n)]), Stage: "shard-splitter", Generation: 1,
			Filename: "a", Shard: n,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.js.PublishMsg(t.Context(),
			&nats.Msg{Subject: stream.WorkSubject("shard-splitter"), Data: body}); err != nil {
			t.Fatal(err)
		}
	}
	before := h.state()
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if after := h.state(); !maps.Equal(before, after) {
		t.Errorf("before: %v\nafter: %v", before, after)
	}
	entries := h.counts(`SELECT t.shard || ' ' || o.stage || ' ' || o.generation || ' ' || o.priority, count(*)::integer
		FROM millrace.outbox AS o JOIN millrace.pipeline_tracking AS t ON t.id = o.item_id GROUP BY 1`)
	if want := map[string]int{"0 1 1 3": 1, "9 1 3 0": 1, "7 2 1 0": 1}; !maps.Equal(entries, want) {
		t.Errorf("announced are %v, not %v", entries, want)
	}
	if plain := h.counts("SELECT item_id::text, 1 FROM millrace.claim WHERE plain"); !maps.Equal(plain,
		map[string]int{fmt.Sprint(ids["3"]): 1}) {
		t.Errorf("plain daemons have %v", plain)
	}
	h.goOn(ids)
}

// goOn has everything worked to its end that can be, at the stage shard-splitter.
func (h *house) goOn(ids map[string]int) {
	h.Helper()
	h.run(h.store.Queues().Run)
	h.serve()
	h.run(func(ctx context.Context) error { return h.ackAll(ctx, "shard-splitter") })
	results, err := h.store.Apply(h.Context(), shard.Splitter, item.Complete,
		[]queue.Command{{ID: int64(ids["2"]), Generation: 2, Worker: "w"}})
	if err != nil || results[0].Outcome != item.Changed {
		h.Fatal(results, err)
	}
	h.await(shard.Splitter, item.Done, 7) // all but those that have failed, and the one that waits
	if n, err := h.store.RetryFailed(h.Context(), tracking.FailedFilter{Stage: shard.Splitter, Dead: true, Limit: 10},
		0); n != 2 || err != nil {
		h.Fatal(n, err)
	}
	h.await(shard.Splitter, item.Done, 9)
	done := h.counts(
		"SELECT item_id::text, count(*)::integer FROM millrace.history WHERE stage = 1 AND move = 'done' GROUP BY 1",
	)
	for n, id := range ids {
		if got := done[fmt.Sprint(id)]; got != 1 && n != "8" {
			h.Errorf("shard %s was done %d times", n, got)
		}
	}
	summary, err := h.store.Summary(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	for _, q := range summary.Queues {
		if want := map[shard.Stage]int64{shard.Worker: 9}[shard.Stage(q.ID)]; q.Depth != want || q.Delayed != 0 {
			h.Errorf("%s has %d ready and %d delayed, not %d and none", q.Name, q.Depth, q.Delayed, want)
		}
	}
}

// ackAll is a plain daemon that does all it gets.
func (h *house) ackAll(ctx context.Context, name string) error {
	c, err := h.js.Consumer(ctx, stream.Work, name)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		batch, err := c.Fetch(10, jetstream.FetchMaxWait(200*time.Millisecond))
		if err != nil {
			continue
		}
		for m := range batch.Messages() {
			if err := m.Ack(); err != nil {
				return err
			}
		}
	}
	return nil
}

package uploads

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// worked is a database with an upload that was worked in a queue, whose items are there yet. One connection does all, by plans
// for its parameters or by plans for any, and counts what it reads.
type worked struct {
	*grown
	feed  *uploads.Feeder
	own   *userqueue.Store
	queue queue.Settings
	items int // how many there were before
	reads *embeddedtest.Reads
	kept  *pgxpool.Pool // of other connections
}

func workedIn(t *testing.T, mode string) *worked {
	t.Helper()
	w := &worked{grown: grow(t)}
	w.kept = w.pool
	w.reads = embeddedtest.CountReads(t, w.pool, mode, "upload_item", "upload_row", "upload_result", "upload_reject",
		"upload_image", "item")
	w.pool = w.reads.Pool
	var err error
	if w.store, err = uploads.New(w.pool, uploads.Limits{}, uploads.Attempts{}); err != nil {
		t.Fatal(err)
	}
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, w.pool, embeddedtest.Log(t))
	if err == nil {
		w.own, err = userqueue.New(queues)
	}
	if err == nil {
		w.feed, err = uploads.NewFeeder(uploads.FeederConfig{}, w.store, w.own, embeddedtest.Log(t))
	}
	if err == nil {
		_, err = w.own.Create(t.Context(), queue.Settings{Name: "q", LeaseS: 30, RetentionS: 3600, MaxItems: 1_000_000})
	}
	if err == nil {
		w.queue, err = w.own.Get(t.Context(), "q")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.exec("UPDATE millrace.stage SET followed = true WHERE stage = $1", w.queue.ID)
	w.exec("ALTER TABLE millrace.item SET (autovacuum_enabled = false)")
	return w
}

// end adds rows whose items have ended, with what they have of the rows.
func (w *worked) end(n int) {
	was := w.rows
	w.exec("UPDATE millrace.upload SET read_rows = 0, done = 0 WHERE no = $1", w.job.No) // add counts rows of one status
	w.add(n, schema.StatusDone)
	w.exec(`INSERT INTO millrace.upload_result (job_no, row_no, result) SELECT $1, n, '{"a":"x"}' FROM generate_series($2::int, $3::int) AS n`,
		w.job.No, was+1, w.rows)
	w.exec(`INSERT INTO millrace.item (id, stage, "group", status, payload, result)
		SELECT n, $1, $2, 'done', '{"a":"x"}', '{"b":1}' FROM generate_series($3::int, $4::int) AS n`,
		w.queue.ID, uploads.GroupOf(w.job.ID), w.items+1, w.items+n)
	w.items += n
}

// counted sets the counters of the upload.
func (w *worked) counted(done, processing int) {
	w.exec("UPDATE millrace.upload SET done = $2, processing = $3, pending = 0, read_rows = $2::int + $3::int WHERE no = $1",
		w.job.No, done, processing)
}

// hold adds rows whose items a worker has.
func (w *worked) hold(n int) {
	w.exec("UPDATE millrace.upload SET read_rows = 0, done = 0 WHERE no = $1", w.job.No) // add counts rows of one status
	w.add(n, schema.Processing)
	w.counted(w.rows-n, n)
	w.exec(`INSERT INTO millrace.item (id, stage, "group", status, payload, worker, taken_at)
		SELECT n, $1, $2, 'started', '{"a":"x"}', 'w', now() FROM generate_series($3::int, $4::int) AS n`,
		w.queue.ID, uploads.GroupOf(w.job.ID), w.items+1, w.items+n)
	w.exec("UPDATE millrace.upload_item SET item_id = $3::bigint + row_no - $2::int WHERE job_no = $1 AND row_no > $2::int", w.job.No, w.rows-n, w.items)
	w.items += n
}

func (w *worked) known() {
	w.analyze()
	w.exec("ANALYZE millrace.item")
}

const heldRows = 200

// TestLoopReads: what is done again and again reads the rows at work, and none that have ended. What is done with all of an
// upload reads each of its rows a few times, in however many parts. That is so by plans for parameters and by plans for any,
// and whatever Postgres knows of the tables.
func TestLoopReads(t *testing.T) {
	const n = 12_000
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, analyzed: %v", mode, known), func(t *testing.T) {
				w := workedIn(t, mode)
				w.upload()
				w.end(n)
				w.hold(heldRows)
				if known {
					w.known()
				}
				w.exec("UPDATE millrace.upload_owner SET rows = $1, bytes = 1000000", w.rows)
				few, all := 20*heldRows, w.rows
				w.reads.Most("mend", few, w.feed.Mend)
				w.reads.Most("leases", few, w.feed.Leases)
				w.reads.Most("totals", few, func(ctx context.Context) error { _, err := w.store.Totals(ctx); return err })
				w.reads.Most("tasks", few, func(ctx context.Context) error { _, err := w.store.Tasks(ctx, 100); return err })
				w.reads.Most("withdraw", few, func(ctx context.Context) error { return w.feed.Withdraw(ctx, w.job) })
				w.reads.Most("cancel", 4*all, func(ctx context.Context) error { return w.feed.CancelItems(ctx, w.job) })
				w.exec("UPDATE millrace.upload SET deleted_at = now() WHERE no = $1", w.job.No)
				w.reads.Most("erase", 4*all, func(ctx context.Context) error { return w.feed.Erase(ctx, w.job) })
				w.reads.Most("clear", 9*all, func(ctx context.Context) error { return w.store.Clear(ctx, w.job) })
				for _, what := range []string{"upload", "upload_row", "upload_item", "item WHERE payload IS NOT NULL"} {
					var left int
					if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM millrace."+what).Scan(&left); err != nil || left > 0 {
						t.Errorf("%d are left of %s, %v", left, what, err)
					}
				}
			})
		}
	}
}

// TestPartReads: what is done in parts begins each behind the one before, also while an older transaction keeps what
// was changed in the indexes.
func TestPartReads(t *testing.T) {
	const n = 8000
	w := workedIn(t, "auto")
	w.upload()
	w.hold(n)
	w.known()
	embeddedtest.KeepRows(t, w.kept)
	w.exec("UPDATE millrace.item SET status = 'done' WHERE id <= $1", n/2)
	w.reads.Most("rows whose items have ended", 8*n, func(ctx context.Context) error {
		mended, err := w.feed.MendRows(ctx)
		if mended != n/2 {
			t.Errorf("%d rows are mended, want %d", mended, n/2)
		}
		return err
	})
	w.reads.Most("cancel", 8*n, func(ctx context.Context) error { return w.feed.CancelItems(ctx, w.job) })
	var left int
	err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM millrace.item WHERE status IN ('new', 'started')").Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d items are left, %v", left, err)
	}
}

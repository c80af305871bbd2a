package uploads

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// TestFeedFreshUpload: a feed reads the rows that it feeds, and not all before them, also before Postgres has statistics of
// their upload.
func TestFeedFreshUpload(t *testing.T) {
	s := openShop(t, auth.Config{})
	ctx := t.Context()
	exec := func(sql string) {
		t.Helper()
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE millrace.upload_item SET (autovacuum_enabled = off); ALTER TABLE millrace.upload_row SET (autovacuum_enabled = off)`)
	file := []byte("a\n" + strings.Repeat("1\n", 5000))
	stop := s.run(schema.Bounds{})
	known := s.made("known.csv", file)
	s.until(known, "done", func(j uploads.Job) bool { return j.State == schema.Done })
	exec("ANALYZE millrace.upload_item, millrace.upload_row")
	fresh := s.made("fresh.csv", file, "processor", "enrich")
	j := s.until(fresh, "persisted", func(j uploads.Job) bool { return j.ReadAll })
	stop()
	exec(`WITH ended AS (UPDATE millrace.upload_item AS i SET status = 2 FROM millrace.upload AS u
			WHERE u.no = i.job_no AND u.processor = 'enrich' AND row_no <= 4900 RETURNING i.job_no)
		UPDATE millrace.upload SET pending = pending - 4900, done = done + 4900 WHERE no = (SELECT DISTINCT job_no FROM ended)`)
	cfg := s.pool.Config() // a copy
	cfg.MaxConns = 1       // what a connection has read is told by itself
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := uploads.New(pool, uploads.Limits{}, uploads.Attempts{})
	if err != nil {
		t.Fatal(err)
	}
	feed, _, err := feeder(store, nil, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	read := func() (n int) {
		if _, err := pool.Exec(ctx, "SELECT pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
		if err := pool.QueryRow(ctx, `SELECT sum(idx_tup_fetch + seq_tup_read)::integer FROM pg_stat_user_tables
			WHERE relname = 'upload_row'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	n, err := feed.Step(ctx, "enrich")
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if rows := read() - before; rows < n || rows > 4*n {
		t.Errorf("to feed %d rows of %s, %d were read", n, j.ID, rows)
	}
}

// TestFeedFew: rows of an upload that has few of them go before those that a large one has in the queue already.
func TestFeedFew(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.watch()
	stop := s.run(schema.Bounds{})
	defer stop()
	step := func() {
		t.Helper()
		if _, err := s.feed.Step(t.Context(), "enrich"); err != nil {
			t.Fatal(err)
		}
	}
	persisted := func(j uploads.Job) bool { return j.ReadAll }
	many := s.made("many.csv", []byte("a\n"+strings.Repeat("1\n", 200)), "processor", "enrich")
	s.until(many, "persisted", persisted)
	if _, err := s.pool.Exec(t.Context(), "UPDATE millrace.upload SET claim = 60, slice_items = 0, slice_at = now()"); err != nil {
		t.Fatal(err)
	}
	step()
	few := s.made("few.csv", []byte("a\n"+strings.Repeat("1\n", 8)), "processor", "enrich")
	s.until(few, "persisted", persisted)
	step()
	// Of 60 items of the large one, 32 are ahead.
	of := map[string]int{}
	for _, it := range s.taken(32 + 8) {
		of[it.Payload.JobID]++
	}
	if of[few.String()] != 8 {
		t.Errorf("of the first items, %d are of the upload with 8 rows, and %d of the one with 200", of[few.String()], of[many.String()])
	}
}

// TestDone: an upload whose rows workers process is done with the end of the last one, and nobody has to look at it for that.
// One that is paused is done when it goes on.
func TestDone(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.watch()
	stop := s.run(schema.Bounds{})
	rows := []byte("a\n1\n2\n")
	id, paused := s.made("a.csv", rows, "processor", "enrich"), s.made("b.csv", rows, "processor", "enrich")
	for _, id := range []uuid.UUID{id, paused} {
		s.until(id, "persisted", func(j uploads.Job) bool { return j.ReadAll })
	}
	stop()
	if _, err := s.feed.Step(t.Context(), "enrich"); err != nil {
		t.Fatal(err)
	}
	items := s.taken(4)
	s.send("POST", "/api/v1/uploads/"+paused.String()+"/pause", "", nil)
	for _, it := range items {
		s.report(it, "done", `, "result": {}`)
	}
	first := s.job(id)
	if first.State != schema.Done || first.FinishedAt == nil || first.Attempts != 1 || first.ItemsSec <= 0 {
		t.Errorf("after the last item the upload is %+v", first)
	}
	if j := s.job(paused); j.State != schema.Paused || j.FinishedAt != nil || j.Processed() != 2 {
		t.Errorf("after the last item the upload that is paused is %+v", j)
	}
	s.run(schema.Bounds{})
	s.send("POST", "/api/v1/uploads/"+paused.String()+"/resume", "", nil)
	s.until(paused, "done", func(j uploads.Job) bool { return j.State == schema.Done })
}

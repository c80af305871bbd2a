package tracking_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
)

// TestPurgeReads: a purge looks at each file once, in however many parts: at those that stay, and at those that it has
// dropped while an older transaction keeps them in the indexes.
func TestPurgeReads(t *testing.T) {
	const n = 1000 // files that stay, and that go
	s := newStore(t)
	for _, sql := range []string{
		"INSERT INTO millrace.file (filename, created_at) SELECT 'f' || n, now() - interval '2 hours' FROM generate_series(1, 2 * $1::int) AS n",
		`INSERT INTO millrace.pipeline_tracking (id, filename, shard, updated_at, event_ingest_status, shard_splitter_status,
			shard_worker_status, mysql_sender_status) OVERRIDING SYSTEM VALUE
			SELECT n, 'f' || n, 0, now() - interval '2 hours', 'done', 'done', 'done',
				(CASE WHEN n % 2 = 0 THEN 'done' ELSE 'new' END)::millrace.stage_status FROM generate_series(1, 2 * $1::int) AS n`,
	} {
		if _, err := s.Pool().Exec(t.Context(), sql, n); err != nil {
			t.Fatal(err)
		}
	}
	embeddedtest.KeepRows(t, s.Pool())
	reads := embeddedtest.CountReads(t, s.Pool(), "auto", "file")
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{tracking.Kind{}}}, reads.Pool, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	one, err := tracking.New(tracking.Config{}, queues, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	reads.Most("purge", 8*n, func(ctx context.Context) error {
		dropped, err := one.Purge(ctx, time.Now().Add(-time.Hour), 10*n)
		if dropped != n {
			t.Errorf("%d files are dropped, want %d", dropped, n)
		}
		return err
	})
}

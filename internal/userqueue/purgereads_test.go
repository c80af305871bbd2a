package userqueue_test

import (
	"context"
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// TestPurgeReads: a purge of many finished items reads each a few times, in however many parts, also while an older
// transaction keeps them in the indexes, and with plans for parameters and plans for any.
func TestPurgeReads(t *testing.T) {
	const n = 5000
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		t.Run(mode, func(t *testing.T) {
			s, q := open(t, func(v *queue.Settings) { v.MaxItems = 1_000_000 })
			pool := s.Queues().Pool()
			for _, sql := range []string{
				`INSERT INTO millrace.item (id, stage, status, updated_at, payload)
					SELECT n, $1, 'done', now() - interval '2 hours' + n * interval '1 ms', '1' FROM generate_series(1, $2::int) AS n`,
				`INSERT INTO millrace.finished (item_id, stage, at)
					SELECT n, $1, now() - interval '2 hours' + n * interval '1 ms' FROM generate_series(1, $2::int) AS n`,
				`INSERT INTO millrace.history (item_id, stage, attempt, move, status)
					SELECT n, $1, 1, 'done', 'done' FROM generate_series(1, $2::int) AS n`,
			} {
				if _, err := pool.Exec(t.Context(), sql, q, n); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := pool.Exec(t.Context(), "UPDATE millrace.item AS i SET updated_at = f.at FROM millrace.finished AS f WHERE f.item_id = i.id"); err != nil {
				t.Fatal(err)
			}
			embeddedtest.KeepRows(t, pool)
			reads := embeddedtest.CountReads(t, pool, mode, "item", "finished", "history", "failed", "payload_change")
			queues, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, reads.Pool, embeddedtest.Log(t))
			if err != nil {
				t.Fatal(err)
			}
			one, err := userqueue.New(queues)
			if err != nil {
				t.Fatal(err)
			}
			reads.Most("purge", 6*n, func(ctx context.Context) error {
				dropped, err := one.Purge(ctx)
				if dropped != n {
					t.Errorf("%d items are dropped, want %d", dropped, n)
				}
				return err
			})
			var left int
			err = pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM millrace.finished) + (SELECT count(*) FROM millrace.history)").Scan(&left)
			if err != nil || left > 0 {
				t.Errorf("%d rows are left, %v", left, err)
			}
		})
	}
}

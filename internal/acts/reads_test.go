package acts_test

import (
	"context"
	"testing"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// TestTurnReads: each turn of an act is found without those that were taken, also while an older transaction keeps them
// in the index.
func TestTurnReads(t *testing.T) {
	const n = 200
	s := open(t)
	pool := s.own.Queues().Pool()
	a, _, err := s.Begin(t.Context(), acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"}})
	s.must(err)
	for _, sql := range []string{
		"UPDATE millrace.act SET state = 'running', ended_at = NULL, matched = $2::int * $3::int WHERE id = $1",
		`INSERT INTO millrace.act_batch (act_id, place, part, members, generations)
			SELECT $1, turn, 1001, (SELECT array_agg((turn * $3::int + n)::text) FROM generate_series(1, $3::int) AS n),
				array_fill(1, ARRAY[$3::int]) FROM generate_series(0, $2::int - 1) AS turn`,
	} {
		_, err := pool.Exec(t.Context(), sql, a.ID, n, acts.Turn)
		s.must(err)
	}
	_, err = pool.Exec(t.Context(), "ANALYZE millrace.act_batch")
	s.must(err)
	embeddedtest.KeepRows(t, pool)
	reads := embeddedtest.CountReads(t, pool, "auto", "act_batch")
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{tracking.Kind{}, &userqueue.Kind{}}}, reads.Pool, embeddedtest.Log(t))
	s.must(err)
	own, err := userqueue.New(queues)
	s.must(err)
	s.Store, err = acts.New(queues, embeddedtest.Log(t))
	s.must(err)
	s.Add(items.New(own, s.shards))
	reads.Most("an act", 10*n, func(context.Context) error {
		if a := s.finish(a.ID); a.Skipped != n*acts.Turn {
			t.Errorf("%+v", a)
		}
		return nil
	})
}

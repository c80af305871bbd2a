package feed_test

import (
	"context"
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
)

// TestManyItems: a feed reads no more items than its window has, however many there are in other queues, or were added
// by others, even if the statistics of Postgres still describe empty tables.
func TestManyItems(t *testing.T) {
	s := start(t, engine.Pool(t))
	if _, err := s.own.Create(t.Context(), queue.Settings{Name: "other", MaxAttempts: 1}); err != nil {
		t.Fatal(err)
	}
	other, err := s.own.Get(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	s.exec("ANALYZE millrace.item, millrace.ready, millrace.claim, millrace.delayed")
	const insert = `WITH added AS (
			INSERT INTO millrace.item (id, stage, "group") SELECT nextval('own.item'), $1::smallint, 'g' || i % 3
			FROM generate_series(1, $2::integer) AS i RETURNING id
		)
		INSERT INTO millrace.ready (item_id, generation, stage, priority) SELECT id, 1, $1, 0 FROM added`
	s.exec("CREATE SEQUENCE own.item")
	s.exec(insert, s.q, 5)
	s.exec(insert, other.ID, 20_000)
	s.expectLive("few items beside those of another queue", 5)
	s.exec(insert, s.q, 20_000)
	s.expectLive("many items", window)
}

// expectLive tests how many items a feed counts, and that it reads few rows for that.
func (s *site) expectLive(what string, want int) {
	s.Helper()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		reads := embeddedtest.CountReads(s.T, s.pool, mode, "item", "ready", "claim", "delayed")
		var n int
		reads.Most(what+", "+mode, 100, func(ctx context.Context) error {
			return reads.Pool.QueryRow(ctx, "SELECT coalesce(sum(count), 0)::int FROM ("+feed.LiveSQL()+
				") AS l (name, count, started)", "mail", true, window).Scan(&n)
		})
		if n != want {
			s.Errorf("%s, %s: %d items are counted, want %d", what, mode, n, want)
		}
	}
}

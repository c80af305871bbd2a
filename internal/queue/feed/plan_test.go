package feed_test

import (
	"encoding/json"
	"testing"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
)

// TestManyItems: what a queue has is read in the time of the window, however many items other queues have, or others
// have added to it, also while Postgres takes its tables to be as empty as they were.
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
	s.pages("few items beside those of another queue", 5, 100)
	s.exec(insert, s.q, 20_000)
	s.pages("many items", window, 100)
}

// pages tests how many items the feed counts, and that it reads only so many pages of tables and indexes for that.
func (s *site) pages(what string, items, most int) {
	s.Helper()
	if n := s.number("SELECT coalesce(sum(count), 0)::int FROM ("+feed.LiveSQL()+") AS l (g, count, started)", "mail",
		true, window); n != items {
		s.Errorf("%s: %d are counted, want %d", what, n, items)
	}
	var text string
	if err := s.pool.QueryRow(s.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+feed.LiveSQL(), "mail", true,
		window).Scan(&text); err != nil {
		s.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
		s.Fatalf("the plan is %s (%v)", text, err)
	}
	if n := plans[0].Plan.Hit + plans[0].Plan.Read; n > most {
		s.Errorf("%s: %d pages were read, want at most %d:\n%s", what, n, most, text)
	}
}

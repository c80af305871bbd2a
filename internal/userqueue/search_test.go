package userqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// TestSearch: items are found by what their payloads hold, by whether an attempt has
// failed, and by how long nothing has happened to them.
func TestSearch(t *testing.T) {
	s, q := open(t, func(v *queue.Settings) { v.MaxAttempts = 3 })
	var items []userqueue.EnqueueItem
	for _, payload := range []string{`{"to":"Ada@example.com"}`, `{"to":"bob"}`, `"ADA"`, `null`, `{"n":1}`} {
		items = append(items, userqueue.EnqueueItem{Payload: []byte(payload)})
	}
	added, err := s.Enqueue(t.Context(), "mail", items)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(added))
	for i, a := range added {
		ids[i] = a.ID
	}
	move := func(m item.Move, id int64) {
		t.Helper()
		r, err := s.Queues().Apply(t.Context(), q, m, []queue.Command{{ID: id, Worker: "w", Lease: time.Minute}})
		if err != nil || r[0].Outcome != item.Changed {
			t.Fatal(r, err)
		}
	}
	move(item.Start, ids[1]) // its first attempt
	move(item.Start, ids[2])
	move(item.Again, ids[2]) // waits for its second
	move(item.Start, ids[3])
	move(item.Again, ids[3])
	move(item.Start, ids[3]) // has its second
	move(item.Start, ids[4])
	move(item.Again, ids[4])
	move(item.Start, ids[4])
	move(item.Complete, ids[4]) // needs none
	if _, err := s.Queues().Pool().Exec(t.Context(),
		"UPDATE millrace.item SET updated_at = now() - interval '1 hour' WHERE id = $1", ids[0]); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		page userqueue.Page
		want []int
	}{
		"all":              {userqueue.Page{}, []int{0, 1, 2, 3, 4}},
		"payload":          {userqueue.Page{Payload: "ada"}, []int{0, 2}},
		"no pattern":       {userqueue.Page{Payload: "a%a"}, nil},
		"payload's member": {userqueue.Page{Payload: `"to":`}, []int{0, 1}},
		"retried":          {userqueue.Page{Retried: true}, []int{2, 3}},
		"at work, retried": {userqueue.Page{Retried: true, State: "started"}, []int{3}},
		"unchanged":        {userqueue.Page{Unchanged: 30 * time.Minute}, []int{0}},
		"together":         {userqueue.Page{Unchanged: 30 * time.Minute, Payload: "bob"}, nil},
		"by id":            {userqueue.Page{IDs: ids[3:], Retried: true}, []int{3}},
		"none by id":       {userqueue.Page{IDs: []int64{}}, nil},
		"after":            {userqueue.Page{After: ids[0], Payload: "ada"}, []int{2}},
	} {
		c.page.Queue, c.page.Limit = q, 100
		found, upTo, err := s.Search(t.Context(), c.page)
		if err != nil || upTo != 0 {
			t.Errorf("%s: up to %d, %v", name, upTo, err)
		}
		var got []int
		for _, f := range found {
			got = append(got, slices.Index(ids, f.ID))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestSearchEnds: one search for what no index has reads a part of a large queue, and
// says where the next begins.
func TestSearchEnds(t *testing.T) {
	s, q := open(t, func(*queue.Settings) {})
	const n = 20_001
	_, err := s.Queues().Pool().Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO millrace.item (id, stage, payload, attempts, updated_at)
		SELECT 1000000 + i, $1, CASE WHEN last THEN '"needle"' ELSE '1' END::json, last::int,
			now() - CASE WHEN last THEN interval '2 hours' ELSE '0' END
		FROM generate_series(1, %d) AS i, LATERAL (SELECT i = %[1]d AS last) AS e`, n), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []userqueue.Page{{Payload: "needle"}, {Retried: true}, {Unchanged: time.Hour}} {
		page.Queue, page.Limit = q, 10
		items, upTo, err := s.Search(t.Context(), page)
		if err != nil || len(items) != 0 || upTo != 1_000_000+n-1 {
			t.Errorf("%+v: %d items up to %d, %v", page, len(items), upTo, err)
		}
		page.After = upTo
		items, upTo, err = s.Search(t.Context(), page)
		if err != nil || len(items) != 1 || upTo != 0 {
			t.Errorf("%+v: then %d items up to %d, %v", page, len(items), upTo, err)
		}
	}
}

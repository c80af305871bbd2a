package userqueue_test

import (
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// TestTogether: what comes while others wait for a lock is written together, and each gets the answer that it would
// get alone: a lease is extended for all who ask, and a move that is asked for twice is made once.
func TestTogether(t *testing.T) {
	s, q, ids := started(t)
	twiceTogether(t, s, ids, func(id int64) {
		extended, err := s.Queues().Extend(t.Context(), q, []queue.Command{{ID: id, Worker: "w", Lease: time.Hour}})
		if err != nil || !extended[0] {
			t.Errorf("the lease of item %d: %v, %v", id, extended, err)
		}
	})
	var outcomes sync.Map // item → outcome of the call that came first
	twiceTogether(t, s, ids, func(id int64) {
		results, err := s.Queues().Apply(t.Context(), q, item.Complete, []queue.Command{{ID: id, Worker: "w"}})
		if err != nil {
			t.Errorf("item %d: %v", id, err)
			return
		}
		outcome := results[0].Outcome
		before, second := outcomes.LoadOrStore(id, outcome)
		if !outcome.OK() || second && (before == item.Changed) == (outcome == item.Changed) {
			t.Errorf("item %d: %v, then %v", id, before, outcome)
		}
	})
}

// TestTogetherRefused: a move that Postgres refuses makes no other fail.
func TestTogetherRefused(t *testing.T) {
	s, q, ids := started(t)
	bad := ids[len(ids)-1]
	twiceTogether(t, s, ids, func(id int64) {
		c := queue.Command{ID: id, Worker: "w"}
		if id == bad {
			c.Result = []byte("{")
		}
		if _, err := s.Queues().Apply(t.Context(), q, item.Complete, []queue.Command{c}); (err != nil) != (id == bad) {
			t.Errorf("item %d: %v", id, err)
		}
	})
	for _, id := range ids {
		want := map[bool]string{true: "started", false: "done"}[id == bad]
		if state, err := s.State(t.Context(), q, id); err != nil || state != want {
			t.Errorf("item %d is %s, want %s: %v", id, state, want, err)
		}
	}
}

// started makes a queue of items that a worker has.
func started(t *testing.T) (*userqueue.Store, queue.ID, []int64) {
	t.Helper()
	s, q := open(t, func(v *queue.Settings) { v.MaxItems = 100 })
	ids := add(t, s, 20)
	start := make([]queue.Command, len(ids))
	for i, id := range ids {
		start[i] = queue.Command{ID: id, Worker: "w", Lease: time.Hour}
	}
	if _, err := s.Queues().Apply(t.Context(), q, item.Start, start); err != nil {
		t.Fatal(err)
	}
	return s, q, ids
}

// twiceTogether has do called twice for each item while the first two are locked, and waits for all calls.
func twiceTogether(t *testing.T, s *userqueue.Store, ids []int64, do func(id int64)) {
	t.Helper()
	lock, err := s.Queues().Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(t.Context()) }()
	const sql = "SELECT FROM millrace.item JOIN millrace.claim ON item_id = id WHERE id = ANY ($1) FOR UPDATE"
	if _, err := lock.Exec(t.Context(), sql, ids[:2]); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	for range 2 {
		for _, id := range ids {
			begun := make(chan struct{})
			calls.Go(func() {
				close(begun)
				do(id)
			})
			<-begun
		}
	}
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	for n := 0; n == 0; {
		if err := s.Queues().Pool().QueryRow(t.Context(), waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

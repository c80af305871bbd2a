package userqueue_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// kept is where something of a queue may be kept, with a condition on its number.
var kept = map[string]string{
	"stage": "stage", "item": "stage", "item_key": "stage", "finished": "stage", "ready": "stage", "delayed": "stage",
	"claim": "stage", "failed": "stage", "outbox": "stage", "slot": "stage", "parked": "stage", "key_start": "stage",
	"history": "stage", "tally": "kind / 10", "tally_delta": "kind / 10",
}

// TestDelete: a queue with live items stays as it is unless these may go as well.
// Then nothing of it is left, and one of the same name begins anew.
func TestDelete(t *testing.T) {
	t.Parallel()
	s, q := open(t, func(v *queue.Settings) {
		v.Concurrency, v.PerGroup, v.RatePerKey = 2, 1, queue.Rate{Count: 3, PerS: 60}
	})
	add := func(n int) (ids []int64) {
		t.Helper()
		items := make([]userqueue.EnqueueItem, n)
		for i := range items {
			items[i].Key, items[i].Group = fmt.Sprint("k", i), "g"
		}
		added, err := s.Enqueue(t.Context(), "mail", items)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range added {
			if a.Existing {
				t.Fatalf("item %d was there before", a.ID)
			}
			ids = append(ids, a.ID)
		}
		return ids
	}
	ids := add(4)
	end(t, s, q, item.Complete, 0, ids[0])
	end(t, s, q, item.Fail, 0, ids[1])
	var generation int32
	if err := s.Queues().Pool().QueryRow(t.Context(), "SELECT generation FROM millrace.item WHERE id = $1", ids[1]).
		Scan(&generation); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Replay(t.Context(), q, ids[1], generation, []byte("1"), "somebody"); err != nil ||
		r.Outcome != item.Changed {
		t.Fatalf("%+v, %v", r, err)
	}
	command := []queue.Command{{ID: ids[2], Worker: "w"}}
	if _, err := s.Queues().Apply(t.Context(), q, item.Start, command); err != nil {
		t.Fatal(err)
	}
	var live userqueue.LiveItems
	if _, err := s.Delete(t.Context(), "mail", false); !errors.As(err, &live) || live != 3 {
		t.Fatalf("deleted with live items: %v", err)
	}
	if all, err := s.Items(t.Context(), userqueue.Page{Queue: q, Limit: 10}); err != nil || len(all) != 4 {
		t.Fatalf("%d items are left, %v", len(all), err)
	}
	if n, err := s.Delete(t.Context(), "mail", true); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	var payloads int
	if err := s.Queues().Pool().QueryRow(t.Context(), "SELECT count(*) FROM millrace.payload_change").Scan(&payloads); err != nil ||
		payloads != 0 {
		t.Errorf("%d payloads are left, %v", payloads, err)
	}
	for table, number := range kept {
		var n int
		err := s.Queues().Pool().QueryRow(t.Context(),
			"SELECT count(*) FROM millrace."+table+" WHERE "+number+" = $1", int32(q)).Scan(&n)
		if err != nil || n != 0 {
			t.Errorf("%d rows are left in %s, %v", n, table, err)
		}
	}
	if _, err := s.Get(t.Context(), "mail"); !errors.Is(err, queue.ErrNoQueue) {
		t.Errorf("settings of a deleted queue: %v", err)
	}
	if _, err := s.Delete(t.Context(), "mail", true); !errors.Is(err, queue.ErrNoQueue) {
		t.Errorf("deleted again: %v", err)
	}
	if _, err := s.Delete(t.Context(), "shard-worker", true); !errors.Is(err, queue.ErrNoQueue) {
		t.Errorf("deleted a stage: %v", err)
	}

	if made, err := s.Create(t.Context(), queue.Settings{Name: "mail", LeaseS: 30, MaxItems: 10}); err != nil || !made {
		t.Fatal(made, err)
	}
	fresh := add(4)
	results, err := s.Queues().Apply(t.Context(), q, item.Complete, command) // by who had an item of the old one
	if err != nil || results[0].Outcome != item.NotFound {
		t.Errorf("a move of an item of the deleted queue: %+v, %v", results, err)
	}
	all, err := s.States(t.Context())
	if err != nil || len(all) != 1 || all[0].ID == q || all[0].Counts[item.New] != int64(len(fresh)) {
		t.Errorf("the new queue: %+v, %v", all, err)
	}
}

// TestDeleteWhileAdding: no item outlives its queue. Who deletes waits for items that
// are being added, and sees them; who adds waits for who deletes.
func TestDeleteWhileAdding(t *testing.T) {
	t.Parallel()
	s, _ := open(t, func(*queue.Settings) {})
	begin := func(sql string) pgx.Tx {
		t.Helper()
		tx, err := s.Queues().Pool().Begin(t.Context())
		if err == nil {
			_, err = tx.Exec(t.Context(), sql)
		}
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	during := func(tx pgx.Tx, do func() error) error {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- do() }()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
	adding := begin("SELECT millrace.enqueue('mail', '[{}]')")
	err := during(adding, func() error { _, err := s.Delete(t.Context(), "mail", false); return err })
	var live userqueue.LiveItems
	if !errors.As(err, &live) || live != 1 {
		t.Fatalf("deleted while an item was added: %v", err)
	}
	deleting := begin("DELETE FROM millrace.stage WHERE name = 'mail'")
	err = during(deleting, func() error {
		_, err := s.Enqueue(t.Context(), "mail",
			make([]userqueue.EnqueueItem, 1))
		return err
	})
	if !errors.Is(err, queue.ErrNoQueue) {
		t.Errorf("added while the queue was deleted: %v", err)
	}
}

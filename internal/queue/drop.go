package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Without runs do if there is no queue of a name. None is made until do has returned.
func (s *Store) Without(ctx context.Context, name string, do func(context.Context) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE millrace.stage IN SHARE MODE"); err != nil {
			return err
		}
		var there bool
		err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM millrace.stage WHERE name = $1)", name).Scan(&there)
		if err != nil || there {
			return err
		}
		return do(ctx)
	})
	if err != nil {
		return fmt.Errorf("clear away after queue %s: %w", name, err)
	}
	return nil
}

// Drop queues what deletes a queue with all that this package keeps of it, and tells its
// hooks. The caller has locked its row and those of all its items, in the order of their
// ids, and deletes the items in the same transaction. The number of the queue is never
// given to another one: what is still said about its items finds none.
func (t *Tx) Drop(ctx context.Context, q ID, name string, items []Change) error {
	ids := make([]int64, len(items))
	for i := range items {
		items[i].Deleted, ids[i] = true, items[i].ID
	}
	if err := t.moved(ctx, name, true, items); err != nil {
		return err
	}
	t.Batch.Queue("DELETE FROM millrace.history WHERE item_id = ANY ($1::bigint[])", ids)
	for _, table := range []string{"ready", "delayed", "claim", "failed", "outbox", "slot", "parked", "key_start", "error_domain"} {
		t.Batch.Queue("DELETE FROM millrace."+table+" WHERE stage = $1", q)
	}
	t.Batch.Queue("SELECT pg_advisory_xact_lock($1, 0)", lockClass) // nobody folds counters meanwhile
	for _, table := range []string{"tally_delta", "tally"} {
		t.Batch.Queue("DELETE FROM millrace."+table+" WHERE kind BETWEEN $1 AND $2", counter(q, 0), counter(q, 9))
	}
	t.Batch.Queue("DELETE FROM millrace.stage WHERE stage = $1", q)
	return nil
}

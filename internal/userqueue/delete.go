package userqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// LiveItems is the error of a queue that is not deleted since so many of its items have
// not ended.
type LiveItems int

func (n LiveItems) Error() string { return fmt.Sprintf("%d items of the queue have not ended", int(n)) }

// Delete deletes a user-defined queue with all its items and their history, in
// one transaction, and returns how many items it had. While items are new,
// scheduled or started it deletes nothing and returns their number as LiveItems, unless
// it is told to delete these as well. A worker that has one of them learns that it
// is gone. A queue that is made with the same name later has another number, so
// that nothing said about the old items reaches it.
func (s *Store) Delete(ctx context.Context, name string, withLive bool) (items int, err error) {
	err = s.queues.Transact(ctx, "delete queue "+name, func(t *queue.Tx) error {
		var q queue.ID
		t.Batch.Queue("SELECT stage FROM millrace.stage WHERE name = $1 AND stage >= $2 FOR UPDATE", name,
			queue.FirstOwn).QueryRow(func(r pgx.Row) error { return r.Scan(&q) })
		if err := t.Flush(ctx); err != nil {
			return err
		}
		gone, live, err := lockAll(ctx, t, q)
		if err != nil {
			return err
		}
		if live > 0 && !withLive {
			return LiveItems(live)
		}
		if err := t.Drop(ctx, q, name, gone); err != nil {
			return err
		}
		ids := make([]int64, len(gone))
		for i, c := range gone {
			ids[i] = c.ID
		}
		t.Batch.Queue("DELETE FROM millrace.payload_change WHERE item_id = ANY ($1::bigint[])", ids)
		for _, table := range []string{"item_key", "finished", "item"} {
			t.Batch.Queue("DELETE FROM millrace."+table+" WHERE stage = $1", q)
		}
		items = len(ids)
		return nil
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, queue.ErrNoQueue
	}
	s.queues.Forget(name)
	return items, err
}

// lockAll locks all items of a queue, and returns how many of them have not ended.
func lockAll(ctx context.Context, t *queue.Tx, q queue.ID) (items []queue.Change, live int, err error) {
	t.Batch.Queue("SELECT id, status::text FROM millrace.item WHERE stage = $1 ORDER BY id FOR UPDATE", q).
		Query(func(rows pgx.Rows) error {
			var id int64
			var status string
			_, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error {
				c := queue.Change{ID: id}
				c.Before.Status, _ = item.ParseStatus(status)
				if s := c.Before.Status; s == item.New || s == item.Started {
					live++
				}
				items = append(items, c)
				return nil
			})
			return err
		})
	return items, live, t.Flush(ctx)
}

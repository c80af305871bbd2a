package uploads

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// withdrawLimit is how many items one transaction takes out of a queue.
const withdrawLimit = 1000

// Withdraw takes the items of a job that no worker has out of its queue. Their rows are PENDING again, with the
// attempts that were made, and wait as long as they would have. Items that workers have go on.
func (f *Feeder) Withdraw(ctx context.Context, j Job) error {
	return f.eachQueued(ctx, j, "withdraw", func(t *queue.Tx, q queue.Settings) (bool, error) {
		n, err := f.withdraw(ctx, t, q, j)
		return n > 0, err
	})
}

// CancelItems ends the items of a job that have not ended. Their rows are SKIPPED.
func (f *Feeder) CancelItems(ctx context.Context, j Job) error {
	var after int64 // the last item of the part before
	return f.eachQueued(ctx, j, "cancel", func(t *queue.Tx, q queue.Settings) (more bool, err error) {
		_, last, err := f.own.CancelIn(ctx, t, q.ID, GroupOf(j.ID), "", after, withdrawLimit)
		more = last > after
		t.OnCommit(func() { after = last })
		return more, err
	})
}

// eachQueued does something with the items of a job in its queue until there are none left, some in each transaction.
func (f *Feeder) eachQueued(
	ctx context.Context, j Job, what string, do func(*queue.Tx, queue.Settings) (more bool, err error),
) error {
	if !j.Queued() {
		return nil
	}
	q, err := f.own.Get(ctx, j.Processor)
	if errors.Is(err, queue.ErrNoQueue) {
		return nil // its items are gone with it
	}
	for more := true; err == nil && more; {
		err = f.own.Queues().Transact(ctx, what+" items of an upload", func(t *queue.Tx) (err error) {
			more, err = do(t, q)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("%s items of the upload %s: %w", what, j.ID, err)
	}
	return nil
}

func (f *Feeder) withdraw(ctx context.Context, t *queue.Tx, q queue.Settings, j Job) (int, error) {
	w, err := t.Work(q.ID, item.Cancel)
	if err != nil {
		return 0, err
	}
	// The rows at work lead to the items, whatever Postgres knows of the tables: the group has those that have ended, too.
	locked, err := w.Lock(ctx, `t.id = ANY (ARRAY(SELECT i.id FROM millrace.upload_item AS r CROSS JOIN LATERAL (
			SELECT id FROM millrace.item WHERE id = r.item_id AND stage = $1 AND status = 'new' OFFSET 0) AS i
		WHERE r.job_no = $2 AND r.status = $3 ORDER BY r.row_no LIMIT $4))`, q.ID, j.No, schema.Processing, withdrawLimit)
	if err != nil {
		return 0, err
	}
	var m moves
	var commands []queue.Command
	for _, r := range locked {
		if r.Status == item.New { // and no worker has taken it meanwhile
			m.items, m.to, m.attempts = append(m.items, r.ID), append(m.to, int16(schema.Pending)), append(m.attempts, r.Attempts)
			commands = append(commands, queue.Command{ID: r.ID, Error: "withdrawn: its upload does not go on at present"})
		}
	}
	if len(commands) == 0 {
		return 0, nil
	}
	m.results, m.errs, m.worked = make([]*string, len(m.items)), make([]*string, len(m.items)), make([]bool, len(m.items))
	if m.waits, err = waitsOf(ctx, t, q.ID, m.items); err != nil {
		return 0, err
	}
	m.queue(t, f.log)
	if _, err := w.Apply(ctx, commands); err != nil {
		return 0, err
	}
	return len(locked), nil
}

// lost bars items of uploads from being brought back whose rows do not wait for them: a worker's result would be lost (6).
func lost(ctx context.Context, t *queue.Tx, ids []int64) (map[int64]string, error) {
	all := map[int64]string{}
	t.Batch.Queue(text("lost"), ids, userqueue.PrivateGroup).Query(func(rows pgx.Rows) error {
		var id int64
		var paused bool
		_, err := pgx.ForEachRow(rows, []any{&id, &paused}, func() error {
			if all[id] = "must be of a row that is ERROR in an upload that goes on: reprocess the row"; paused {
				all[id] = "must be of an upload that is not paused: resume it"
			}
			return nil
		})
		return err
	})
	return all, t.Flush(ctx)
}

// waitsOf returns how many seconds items wait yet, in their order.
func waitsOf(ctx context.Context, t *queue.Tx, q queue.ID, items []int64) ([]float64, error) {
	waits := make([]float64, 0, len(items))
	t.Batch.Queue(`SELECT coalesce((SELECT greatest(extract(epoch FROM due_at - now()), 0) FROM millrace.delayed
			WHERE stage = $1 AND item_id = u.id), 0)::float8
		FROM unnest($2::bigint[]) WITH ORDINALITY AS u (id, place) ORDER BY place`, q, items).Query(func(rows pgx.Rows) (err error) {
		waits, err = pgx.AppendRows(waits, rows, pgx.RowTo[float64])
		return err
	})
	return waits, t.Flush(ctx)
}

// Mend completes what a process that was killed has left, items of jobs that do not go on, and what one of an earlier
// version has not done.
func (f *Feeder) Mend(ctx context.Context) error {
	if _, err := f.MendRows(ctx); err != nil {
		return err
	}
	if _, err := f.MendItems(ctx); err != nil {
		return err
	}
	rows, _ := f.store.pool.Query(ctx, "SELECT "+columns+tables+`WHERE u.processor <> 'copy' AND u.processing > 0
		AND u.received_at IS NOT NULL AND (u.queue_state IN ('PAUSED', 'FAILED') OR u.cancelled_at IS NOT NULL)`)
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Job, error) { return jobOf(r) })
	if err != nil {
		return fmt.Errorf("look for uploads that do not go on: %w", err)
	}
	for _, j := range all {
		do := f.Withdraw
		if j.CancelledAt != nil {
			do = f.CancelItems
		}
		if err := do(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// Erase ends the items of a job, and deletes what they have of its rows. The items stay in the history of their queue.
func (f *Feeder) Erase(ctx context.Context, j Job) error {
	if err := f.CancelItems(ctx, j); err != nil {
		return err
	}
	var after int64 // the last item that was erased by a transaction that was committed
	return f.eachQueued(ctx, j, "erase", func(t *queue.Tx, q queue.Settings) (more bool, err error) {
		var n int
		var last int64
		t.Batch.Queue(text("erase"), q.ID, GroupOf(j.ID), withdrawLimit, after).QueryRow(func(r pgx.Row) error {
			return r.Scan(&n, &last)
		})
		t.OnCommit(func() { after = last })
		err = t.Flush(ctx)
		return n > 0, err
	})
}

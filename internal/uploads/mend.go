package uploads

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// mendLimit is how many rows one transaction mends.
const mendLimit = 1000

// MendRows has rows follow items that have ended without them, and returns how many. A process of an earlier version
// may end items while an installation is upgraded: it knows nothing of their rows (6).
func (f *Feeder) MendRows(ctx context.Context) (all int, err error) {
	// All at once: whoever looks for some finds them behind all rows that are rightly at work.
	rows, _ := f.store.pool.Query(ctx, text("ended"))
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("look for items that have ended without their rows: %w", err)
	}
	for part := range slices.Chunk(ids, mendLimit) {
		var n int
		err = f.own.Queues().Transact(ctx, "mend rows of uploads", func(t *queue.Tx) (err error) {
			n, err = f.mendRows(ctx, t, part)
			return err
		})
		if err != nil {
			break
		}
		all += n
	}
	if all > 0 {
		f.log.Warn("items have ended without their rows, which are mended: does an earlier version run?", "rows", all)
	}
	return all, err
}

// MendItems ends items that are out and have no row, and returns how many: a process of an earlier version brings them
// back. Their rows have gone on without them (6).
func (f *Feeder) MendItems(ctx context.Context) (all int, err error) {
	rows, err := f.store.pool.Query(ctx, text("strays"), queue.FirstOwn, userqueue.PrivateGroup, mendLimit)
	strays := map[queue.ID][]int64{}
	if err == nil {
		var q queue.ID
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&q, &id}, func() error {
			strays[q] = append(strays[q], id)
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("look for items of uploads without rows: %w", err)
	}
	for q, ids := range strays {
		ended := 0
		err = f.own.Queues().Transact(ctx, "end items of uploads without rows", func(t *queue.Tx) error {
			w, err := t.Work(q, item.Cancel)
			if err != nil {
				return err
			}
			locked, err := w.Lock(ctx, "t.id = ANY ($1::bigint[]) AND t.status = 'new'", ids)
			ended = len(locked) // the others have moved meanwhile
			commands := make([]queue.Command, len(locked))
			for i, r := range locked {
				commands[i] = queue.Command{ID: r.ID, Error: "its row has gone on without it"}
			}
			if err == nil {
				_, err = w.Apply(ctx, commands)
			}
			return err
		})
		if err != nil {
			return all, err
		}
		all += ended
	}
	if all > 0 {
		f.log.Warn("items have come back without their rows, and are ended: does an earlier version run?", "items", all)
	}
	return all, nil
}

// ended is how an item has ended.
type ended struct {
	status    string
	cancelled bool
	attempts  int32
	result    *string
	err       string
}

func (f *Feeder) mendRows(ctx context.Context, t *queue.Tx, ids []int64) (int, error) {
	t.Batch.Queue("SELECT item_id FROM millrace.upload_item WHERE item_id = ANY ($1) AND status = 1 ORDER BY item_id", ids).
		Query(func(rows pgx.Rows) (err error) { // others may have mended some
			ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
	if err := t.Flush(ctx); err != nil || len(ids) == 0 {
		return 0, err
	}
	there := map[int64]ended{}
	t.Batch.Queue(text("ended_as"), ids).Query(func(rows pgx.Rows) error {
		var id int64
		var e ended
		_, err := pgx.ForEachRow(rows, []any{&id, &e.status, &e.cancelled, &e.attempts, &e.result, &e.err}, func() error {
			there[id] = e
			return nil
		})
		return err
	})
	if err := t.Flush(ctx); err != nil {
		return 0, err
	}
	var m moves
	for _, id := range ids {
		e, found := there[id]
		if found && e.status != "done" && e.status != "failed" {
			continue // it was brought back meanwhile
		}
		m.mend(id, e, found)
	}
	if len(m.items) == 0 {
		return 0, nil
	}
	m.queue(t, f.log)
	if err := t.Flush(ctx); err != nil {
		return 0, fmt.Errorf("move rows behind their items: %w", err)
	}
	return len(m.items), nil
}

// mend adds what becomes of a row whose item has ended without it. One whose item is gone is worked again.
func (m *moves) mend(id int64, e ended, found bool) {
	to, fault := schema.Error, e.err
	var result *string
	switch {
	case !found:
		to, fault = schema.Pending, ""
	case e.cancelled:
		to = schema.Skipped
	case e.status == "done":
		to, fault = schema.StatusDone, ""
		if e.result != nil && *e.result != "null" {
			result = e.result
			if fault = userqueue.ResultFault([]byte(*e.result)); fault != "" {
				to, result = schema.Error, nil
			}
		}
	}
	m.items, m.to, m.attempts = append(m.items, id), append(m.to, int16(to)), append(m.attempts, e.attempts)
	m.waits, m.worked = append(m.waits, 0), append(m.worked, false)
	m.results, m.errs = append(m.results, result), append(m.errs, orNil(fault))
}

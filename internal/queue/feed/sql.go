package feed

import (
	"context"
	"encoding/json"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// statements are the rows of a system that has them in SQL.
type statements struct{ SQL }

// Groups implements Rows. The window alone bounds the items of a group.
func (s statements) Groups(b *pgx.Batch, add func(group string, most func(Live) int)) {
	b.Queue(s.SQL.Groups).Query(func(rows pgx.Rows) error {
		var name string
		_, err := pgx.ForEachRow(rows, []any{&name}, func() error {
			add(name, func(Live) int { return math.MaxInt })
			return nil
		})
		return err
	})
}

// Next implements Rows.
func (s statements) Next(b *pgx.Batch, group string, n int, add func(id string, it userqueue.NewItem) error) {
	b.Queue(s.SQL.Next, group, n).Query(func(rows pgx.Rows) error {
		var id, payload string
		var it userqueue.NewItem
		_, err := pgx.ForEachRow(rows, []any{&id, &payload, &it.Priority}, func() error {
			it.Payload = json.RawMessage(payload)
			return add(id, it)
		})
		return err
	})
}

// Fed implements Rows.
func (s statements) Fed(_ context.Context, t *queue.Tx, rows []Fed) error {
	ids, items, faults := make([]string, len(rows)), make([]*int64, len(rows)), make([]*string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
		if items[i] = &rows[i].Item; rows[i].Fault != "" {
			items[i], faults[i] = nil, &rows[i].Fault
		}
	}
	t.Batch.Queue(s.SQL.Fed, ids, items, faults)
	return nil
}

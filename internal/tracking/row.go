package tracking

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/shard"
)

// row is a locked row of pipeline_tracking, as seen from one stage.
type row struct {
	id             int64
	filename       string
	shard          int32
	priority       int16
	createdAt      time.Time
	item           shard.Item
	prev, next     shard.Status
	nextGeneration int32
}

// scanRow reads what lock.sql selects.
func scanRow(r pgx.CollectableRow) (row, error) {
	var v row
	var status, prev, next string
	err := r.Scan(&v.id, &v.filename, &v.shard, &v.priority, &v.createdAt,
		&status, &v.item.Generation, &v.item.Attempts, &v.item.Allowed, &v.item.Worker,
		&prev, &next, &v.nextGeneration)
	if err != nil {
		return v, err
	}
	for _, s := range []struct {
		text string
		to   *shard.Status
	}{{status, &v.item.Status}, {prev, &v.prev}, {next, &v.next}} {
		var ok bool
		if *s.to, ok = shard.ParseStatus(s.text); !ok {
			return v, fmt.Errorf("item %d has the status %q, which is none", v.id, s.text)
		}
	}
	return v, nil
}

func (r *row) result(o shard.Outcome) Result {
	return Result{
		ID: r.id, Filename: r.filename, Shard: r.shard, Outcome: o, CreatedAt: r.createdAt,
		Status: r.item.Status, Generation: r.item.Generation, Attempts: r.item.Attempts, Worker: r.item.Worker,
	}
}

// collect queues a query and gathers its rows in to.
func collect(b *pgx.Batch, to *[]row, sql string, args ...any) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*to, err = pgx.AppendRows((*to)[:0], rows, scanRow)
		return err
	})
}

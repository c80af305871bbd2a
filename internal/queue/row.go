package queue

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/item"
)

// row is a locked item, as seen from one queue.
type row struct {
	id             int64
	name           string
	part           int32
	priority       int16
	createdAt      time.Time
	state          item.State
	queued         bool  // it is in the queue while it is new
	next           ID    // queue in which it becomes ready when it is done here; 0: none
	nextGeneration int32 // that it has there
	trace          string
}

// scanRow reads what Statements.Lock selects.
func scanRow(r pgx.CollectableRow) (row, error) {
	var v row
	var status string
	err := r.Scan(&v.id, &v.name, &v.part, &v.priority, &v.createdAt,
		&status, &v.state.Generation, &v.state.Attempts, &v.state.Allowed, &v.state.Worker,
		&v.queued, &v.next, &v.nextGeneration, &v.trace)
	if err != nil {
		return v, err
	}
	var ok bool
	if v.state.Status, ok = item.ParseStatus(status); !ok {
		return v, fmt.Errorf("item %d has the unknown status %q", v.id, status)
	}
	return v, nil
}

func (r *row) result(o item.Outcome) Result {
	return Result{
		ID: r.id, Name: r.name, Part: r.part, Outcome: o, CreatedAt: r.createdAt, Status: r.state.Status,
		Generation: r.state.Generation, Attempts: r.state.Attempts, Allowed: r.state.Allowed, Worker: r.state.Worker,
		Priority: r.priority, Queued: r.queued, Trace: r.trace,
	}
}

// collect queues a query and gathers its rows in to.
func collect(b *pgx.Batch, to *[]row, sql string, args ...any) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*to, err = pgx.AppendRows((*to)[:0], rows, scanRow)
		return err
	})
}

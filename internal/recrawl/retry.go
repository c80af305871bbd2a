package recrawl

import (
	"context"

	"github.com/millrace-io/millrace/internal/queue"
)

// Error names an item that is an error, as it was when it was found.
type Error struct {
	ID         int64
	Generation int32
}

// Reasons why an error is not tried again.
const (
	NoError  = "is no error any more"
	Retrying = "is being tried again"
	Again    = "was tried again meanwhile, and is an error again"
)

// RetryIn has errors tried again at once, whatever their categories, in a transaction of the
// caller's. It returns why each is not, in their order; empty: it is.
func (s *Store) RetryIn(ctx context.Context, t *queue.Tx, errs []Error) ([]string, error) {
	ids, why := make([]int64, len(errs)), make([]string, len(errs))
	for i, e := range errs {
		ids[i] = e.ID
	}
	w, err := lock(ctx, t, "e.id = ANY ($1::bigint[])", ids)
	if err != nil {
		return nil, err
	}
	rows := make(map[int64]*row, len(w.rows))
	for _, r := range w.rows {
		rows[r.id] = r
	}
	for i, e := range errs {
		r := rows[e.ID]
		switch {
		case r == nil || w.batches[r.batch] == nil:
			why[i] = NoError
		case r.state != isError:
			why[i] = Retrying
		case r.generation != int(e.Generation):
			why[i] = Again
		default:
			w.retry(r)
		}
	}
	return why, w.write(t, s.outbox)
}

// retry has an error tried again at once. An item that has tried so before has its own end.
func (w *work) retry(r *row) {
	policy, _ := r.category.Retry()
	r.queue, r.tries, r.item, r.wait = policy.Queue, 0, 0, 0
	w.move(r, waiting)
}

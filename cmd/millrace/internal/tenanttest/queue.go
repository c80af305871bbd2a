package tenanttest

import (
	"context"
	"log/slog"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// Queue is the name of the queue.
const Queue = "reviews"

// Work keeps the queue filled with reviews that wait, and notes what becomes of its items.
type Work struct {
	own  *userqueue.Store
	feed *feed.Feed
}

// NewWork returns the work. Every process that moves items makes one.
func NewWork(own *userqueue.Store, log *slog.Logger) (*Work, error) {
	f, err := feed.New(feed.Config{Name: Queue, Queue: Queue, Window: 100, SQL: feed.SQL{
		Groups: "SELECT '' WHERE EXISTS (SELECT FROM reviews.review WHERE state = 'waiting')",
		Next: `SELECT seq::text, jsonb_build_object('id', id, 'page', page, 'text', body)::text, 0::smallint
			FROM reviews.review WHERE $1 = '' AND state = 'waiting' ORDER BY seq LIMIT $2`,
		Fed: `UPDATE reviews.review AS r SET item_id = f.item, fault = f.fault,
			state = CASE WHEN f.item IS NULL THEN 'refused' ELSE 'new' END
			FROM unnest($1::text[], $2::bigint[], $3::text[]) AS f (seq, item, fault) WHERE r.seq = f.seq::bigint`,
	}, Moved: moved}, own, log)
	return &Work{own, f}, err
}

const sqlMoved = `UPDATE reviews.review AS r SET state = m.status
	FROM unnest($1::bigint[], $2::text[]) AS m (item, status) WHERE r.item_id = m.item`

// moved notes what has become of items, in the transaction that moves them.
func moved(_ context.Context, t *queue.Tx, changes []queue.Change) error {
	ids, states := make([]int64, len(changes)), make([]string, len(changes))
	for i, c := range changes {
		ids[i], states[i] = c.ID, feed.Status(c)
	}
	t.Batch.Queue(sqlMoved, ids, states)
	return nil
}

// Run makes the queue and feeds it, until ctx ends.
func (w *Work) Run(ctx context.Context) error {
	_, err := w.own.Create(ctx, queue.Settings{
		Name: Queue, MaxAttempts: 3, LeaseS: 60, RetentionS: 3600, MaxItems: userqueue.MaxItems,
	})
	if err != nil {
		return err
	}
	return w.feed.Run(ctx)
}

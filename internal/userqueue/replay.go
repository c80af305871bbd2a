package userqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// errLeft rolls a replay back that its item does not allow.
var errLeft = errors.New("the item stays as it is")

// Replay is Retry of one item with another payload. The one before is kept, with
// who has changed it. A generation of 0 is whichever the item has. Without the
// outcome Changed nothing was done.
func (s *Store) Replay(
	ctx context.Context, q queue.ID, id int64, generation int32, payload json.RawMessage, by string,
) (r queue.Result, err error) {
	err = s.queues.Transact(ctx, fmt.Sprintf("replay item %d of queue %d", id, q), func(t *queue.Tx) error {
		results, err := s.RetryIn(ctx, t, q, []queue.Command{{ID: id, Generation: generation, Worker: by}})
		if err != nil {
			return err
		}
		if r = results[0]; r.Outcome != item.Changed {
			return errLeft
		}
		t.Batch.Queue(`INSERT INTO millrace.payload_change (item_id, attempt, caller, payload)
			SELECT id, attempts, $2, payload FROM millrace.item WHERE id = $1`, id, by)
		t.Batch.Queue("UPDATE millrace.item SET payload = $2::text::json WHERE id = $1", id, string(payload))
		return nil
	})
	if errors.Is(err, errLeft) {
		err = nil
	}
	return r, err
}

// Change is a change of an item's payload.
type Change struct {
	At      time.Time
	By      string // empty: on a server without tokens
	Attempt int32  // attempts made before it
	Before  json.RawMessage
}

// changesKnown is how many changes Changes returns.
const changesKnown = 20

// Changes returns the last changes of an item's payload, in order.
func (s *Store) Changes(ctx context.Context, id int64) ([]Change, error) {
	rows, _ := s.queues.Pool().Query(ctx, `SELECT at, caller, attempt, coalesce(payload, 'null')::text FROM (
			SELECT * FROM millrace.payload_change WHERE item_id = $1 ORDER BY id DESC LIMIT $2
		) AS c ORDER BY id`, id, changesKnown)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (v Change, err error) {
		return v, r.Scan(&v.At, &v.By, &v.Attempt, &v.Before)
	}, "read the payloads of item %d", id)
}

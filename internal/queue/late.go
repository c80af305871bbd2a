package queue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// ask says what a command asks for. A plain daemon knows no generation but that of the
// message by which it has the item: from it, that names the daemon's taking. No taking
// has the generation of a message, so nothing else can be meant.
func (w *Work) ask(r *row, c Command) item.Ask {
	ask := item.Ask{
		Move: w.move, Generation: c.Generation, Worker: c.Worker, Takeover: c.Takeover, Final: c.Final,
	}
	if w.move == item.Start || r.state.Worker != stream.PlainWorker {
		return ask
	}
	taking := r.state.Generation
	if r.state.Status == item.New {
		taking-- // which has ended
	}
	if c.Generation == taking-1 && c.Generation > 0 {
		ask.Generation, ask.Worker = taking, ""
	}
	return ask
}

// readLapsed reads whose last worker was silent, where that matters: an item that is
// completed after its lease.
func (w *Work) readLapsed(ctx context.Context) error {
	if w.move != item.Complete || w.sql.StatusOnly {
		return nil
	}
	at := map[int64]*row{}
	var ids []int64
	for i := range w.rows {
		if r := &w.rows[i]; r.state.Status == item.New && r.state.Generation > 1 || r.state.Status == item.Failed {
			at[r.id] = r
			ids = append(ids, r.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	w.Batch.Queue(`SELECT u.id FROM unnest($2::bigint[]) AS u (id), LATERAL (
			SELECT move FROM millrace.history WHERE item_id = u.id AND stage = $1 ORDER BY id + 0 DESC LIMIT 1
		) AS h WHERE h.move = $3::text::millrace.move`, w.queue, ids, item.Expire.String()).
		Query(func(rows pgx.Rows) error {
			var id int64
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
				at[id].state.Lapsed = true
				return nil
			})
			return err
		})
	return w.Flush(ctx)
}

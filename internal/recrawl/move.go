package recrawl

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/item"
)

// moved has rows follow their items, in the transactions that change these.
func (s *Store) moved(ctx context.Context, t *queue.Tx, changes []queue.Change) error {
	about := make(map[int64]queue.Change, len(changes))
	var ids []int64
	for _, c := range changes {
		if feed.Status(c) != "started" {
			about[c.ID] = c
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	w, err := lock(ctx, t, "e.item_id = ANY ($1::bigint[])", ids)
	if err != nil {
		return err
	}
	for _, r := range w.rows {
		item := r.item
		if err := w.follow(r, about[item]); err != nil {
			return err
		}
		delete(about, item)
	}
	if err := w.write(t, s.outbox); err != nil {
		return err
	}
	return s.adopt(ctx, t, about)
}

// follow has a row follow its item.
func (w *work) follow(r *row, c queue.Change) error {
	switch status := feed.Status(c); {
	case w.batches[r.batch] == nil: // somebody has deleted it
		return nil
	case status == "done":
		return w.end(r, c.Command.Result)
	case status == "new" && r.state == isError: // somebody has brought the item back
		w.move(r, queued)
	case status != "new" && r.state == queued:
		w.move(r, isError)
	}
	return nil
}

// adopt has rows follow items that they are not known to have become, such as one that was
// dead, whose row was tried again with another item, and which somebody has brought back.
func (s *Store) adopt(ctx context.Context, t *queue.Tx, about map[int64]queue.Change) error {
	var items []int64
	for id, c := range about {
		if status := feed.Status(c); status == "done" || status == "new" {
			items = append(items, id)
		}
	}
	if len(items) == 0 {
		return nil
	}
	rows, ids := map[int64][]int64{}, []int64{} // items of rows
	t.Batch.Queue(text("places"), items).Query(func(found pgx.Rows) error {
		var item, id int64
		_, err := pgx.ForEachRow(found, []any{&item, &id}, func() error {
			rows[id], ids = append(rows[id], item), append(ids, id)
			return nil
		})
		return err
	})
	if err := t.Flush(ctx); err != nil || len(ids) == 0 {
		return err
	}
	w, err := lock(ctx, t, "e.id = ANY ($1::bigint[])", ids)
	if err != nil {
		return err
	}
	for _, r := range w.rows {
		for _, item := range rows[r.id] {
			if err := w.take(r, item, about[item]); err != nil {
				return err
			}
		}
	}
	return w.write(t, s.outbox)
}

// take has a row follow an item in the place of its own.
func (w *work) take(r *row, item int64, c queue.Change) error {
	switch done := feed.Status(c) == "done"; {
	case w.batches[r.batch] == nil || r.state == gone:
		return nil
	case done:
		return w.end(r, c.Command.Result)
	case r.state != queued:
		r.item = item
		w.move(r, queued)
	}
	return nil
}

// end ends a retry with what its worker says (2).
func (w *work) end(r *row, said []byte) error {
	o := batches.ReadRetry(said, r.contentID)
	r.version++
	if err := w.tell(r, o, said); err != nil {
		return err
	}
	r.item = 0 // what is done stays done
	if o.OK() {
		w.recode(r, "")
		w.move(r, gone)
		return nil
	}
	w.recode(r, batches.Text(o.Code))
	policy, again := o.Category.Retry()
	r.category, r.print, r.queue = o.Category, item.FingerprintHash(item.Fingerprint(o.Message)), policy.Queue
	if r.tries++; !again || r.tries >= len(policy.Waits) {
		w.move(r, isError)
		return nil
	}
	r.wait = policy.Waits[r.tries]
	w.move(r, waiting)
	return nil
}

// lost bars items from being brought back that are about no error, or about one that is tried again already: what a
// worker says of them would change nothing, or count twice (2).
func lost(ctx context.Context, t *queue.Tx, ids []int64) (map[int64]string, error) {
	all := map[int64]string{}
	t.Batch.Queue(text("lost"), ids).Query(func(rows pgx.Rows) error {
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			all[id] = "must be about an error of a batch that is not tried again already"
			return nil
		})
		return err
	})
	return all, t.Flush(ctx)
}

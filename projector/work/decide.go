package work

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// decision is what has become of entries of the outbox.
type decision struct {
	entries []queue.Entry // that are published, in this order
	bodies  [][]byte      // of their messages
	gone    int           // entries that have left the outbox
}

func (d *decision) refs() []ref { return refsOf(d.entries) }

func refsOf(entries []queue.Entry) []ref {
	refs := make([]ref, len(entries))
	for i, e := range entries {
		refs[i] = e.Ref
	}
	return refs
}

// decide moves entries from the outbox to a block, as far as the limits of their
// queues let it. It drops an entry without a body, whose item has gone on meanwhile.
// It changes nothing and returns nil when somebody has taken an entry out of the
// outbox meanwhile.
func (r *relay) decide(ctx context.Context, entries []queue.Entry, bodies [][]byte) (d *decision, err error) {
	taken := false
	err = pgx.BeginFunc(ctx, r.store.Pool(), func(tx pgx.Tx) error {
		admissions, err := r.admit(ctx, tx, entries, bodies)
		if err != nil {
			return err
		}
		d = &decision{}
		var gone []queue.Entry
		for i, e := range entries {
			if bodies[i] != nil && admissions[i] == queue.Waits {
				continue
			}
			gone = append(gone, e)
			if bodies[i] != nil && admissions[i] == queue.Out {
				d.entries, d.bodies = append(d.entries, e), append(d.bodies, bodies[i])
			}
		}
		if d.gone = len(gone); d.gone == 0 {
			return nil
		}
		if taken, err = take(ctx, tx, gone); err != nil {
			return err
		} else if taken {
			return tx.Rollback(ctx)
		}
		return r.block(ctx, tx, d.refs())
	})
	if taken && (err == nil || errors.Is(err, pgx.ErrTxClosed)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("decide messages from %d of %s: %w", r.next, stream.Work, err)
	}
	return d, nil
}

// admit asks, queue by queue, which of the entries may go out.
func (r *relay) admit(
	ctx context.Context, tx pgx.Tx, entries []queue.Entry, bodies [][]byte,
) ([]queue.Admission, error) {
	admissions := make([]queue.Admission, len(entries))
	live, places, stale := map[queue.ID][]queue.Entry{}, map[queue.ID][]int{}, map[queue.ID][]int64{}
	var queues []queue.ID
	for i, e := range entries {
		if !slices.Contains(queues, e.Queue) {
			queues = append(queues, e.Queue)
		}
		if bodies[i] == nil {
			stale[e.Queue] = append(stale[e.Queue], e.Item)
		} else {
			live[e.Queue], places[e.Queue] = append(live[e.Queue], e), append(places[e.Queue], i)
		}
	}
	slices.Sort(queues) // one order of locks
	for _, q := range queues {
		if r.name(q) == "" {
			continue // of a newer release: it has no bodies here
		}
		some, err := r.store.Admit(ctx, tx, q, live[q], stale[q])
		if err != nil {
			return nil, err
		}
		for i, a := range some {
			admissions[places[q][i]] = a
		}
	}
	return admissions, nil
}

// take takes entries out of the outbox, and tells whether one was gone before.
func take(ctx context.Context, tx pgx.Tx, entries []queue.Entry) (before bool, err error) {
	refs := make([]ref, len(entries))
	priorities := make([]int16, len(entries))
	for i, e := range entries {
		refs[i], priorities[i] = e.Ref, e.Priority
	}
	items, queues, generations := queue.Columns(refs)
	tag, err := tx.Exec(ctx, sqlDecided, items, queues, generations, priorities)
	return err == nil && int(tag.RowsAffected()) != len(entries), err
}

// block writes which sequences the messages about refs get.
func (r *relay) block(ctx context.Context, tx pgx.Tx, refs []ref) error {
	if len(refs) == 0 {
		return nil
	}
	b := &block{First: r.next, Refs: refs}
	items, queues, generations := queue.Columns(refs)
	_, err := tx.Exec(ctx,
		"INSERT INTO millrace.work_batch (first_seq, last_seq, items, stages, generations) VALUES ($1, $2, $3, $4, $5)",
		b.First, b.last(), items, queues, generations)
	return err
}

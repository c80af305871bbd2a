package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/schemas/item"
)

// Entry is an item that has become ready and has yet to be announced.
type Entry struct {
	Ref
	Priority int16
}

// Waiting returns the queues that have entries in the outbox, but some, with the highest
// priority there.
func (s *Store) Waiting(ctx context.Context, but []ID) (map[ID]int16, error) {
	rows, err := s.pool.Query(ctx, text("waiting"), but)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	waiting := map[ID]int16{}
	var q ID
	var priority int16
	_, err = pgx.ForEachRow(rows, []any{&q, &priority}, func() error {
		waiting[q] = priority
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return waiting, nil
}

// Outbox returns up to limit entries of a queue that nobody has announced: the
// highest priority first, and the oldest items of it. It reserves nothing: two
// readers see the same ones.
func (s *Store) Outbox(ctx context.Context, q ID, limit int) ([]Entry, error) {
	rows, _ := s.pool.Query(ctx, text("outbox"), q, limit)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (e Entry, err error) {
		return e, r.Scan(&e.Item, &e.Queue, &e.Generation, &e.Priority)
	}, "read the outbox of queue %d", q)
}

// takeEntries takes the entries of offered items that can be started out of the
// outbox. Whoever takes the entry decides what becomes of the item: this transaction
// starts it, or the publisher puts its message on the stream.
func (w *Work) takeEntries(ctx context.Context, commands []Command, find func(Command) *row) error {
	if w.settings.paused || w.settings.limited() {
		return nil
	}
	var refs []Ref
	var priorities []int16
	for _, c := range commands {
		r := find(c)
		if c.Offered && r != nil && r.state.Status == item.New && r.state.Generation == c.Generation {
			refs, priorities = append(refs, Ref{r.id, w.queue, c.Generation}), append(priorities, r.priority)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	w.entries = make(map[int64]bool, len(refs))
	items, _, generations := Columns(refs)
	w.Batch.Queue(sqlTakeEntries, w.queue, items, generations, priorities).Query(func(rows pgx.Rows) error {
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			w.entries[id] = true
			return nil
		})
		return err
	})
	return w.Flush(ctx)
}

// Bodies returns what the messages about items say, in their order: nil for an
// item that is not ready in that generation.
func (s *Store) Bodies(ctx context.Context, refs []Ref) ([][]byte, error) {
	parts, places := map[Kind][]Ref{}, map[Kind][]int{}
	for i, r := range refs {
		kind, err := s.kindOf(r.Queue)
		if err != nil {
			continue // of a newer release: nobody here can say what it is
		}
		parts[kind], places[kind] = append(parts[kind], r), append(places[kind], i)
	}
	bodies := make([][]byte, len(refs))
	for kind, part := range parts {
		found, err := kind.Bodies(ctx, s.pool, part)
		if err != nil {
			return nil, fmt.Errorf("read %d items that are ready: %w", len(part), err)
		}
		for i, body := range found {
			bodies[places[kind][i]] = body
		}
	}
	return bodies, nil
}

// Bodies returns the messages that announce items of a kind, as JSON. The query takes the [Columns] of refs as its
// parameters. Of each row, the first column is the place of the item in refs, from 1, and the others are scanned into
// to; then item returns the message.
func Bodies(
	ctx context.Context, pool *pgxpool.Pool, query string, refs []Ref, to []any, item func(Ref) any,
) ([][]byte, error) {
	items, queues, generations := Columns(refs)
	rows, _ := pool.Query(ctx, query, items, queues, generations)
	bodies := make([][]byte, len(refs))
	var place int
	_, err := pgx.ForEachRow(rows, append([]any{&place}, to...), func() (err error) {
		bodies[place-1], err = json.Marshal(item(refs[place-1]))
		return err
	})
	return bodies, err
}

// Columns are refs as Postgres unnests them.
func Columns(refs []Ref) (items []int64, queues []int16, generations []int32) {
	for _, r := range refs {
		items, queues, generations = append(items, r.Item), append(queues, int16(r.Queue)),
			append(generations, r.Generation)
	}
	return items, queues, generations
}

// Reannounce puts an item that is ready, and whose message the caller has taken
// off the stream, into the outbox again.
func (s *Store) Reannounce(ctx context.Context, r Ref) error {
	if _, err := s.pool.Exec(ctx, text("reannounce"), r.Item, r.Queue, r.Generation); err != nil {
		return fmt.Errorf("announce item %d again: %w", r.Item, err)
	}
	s.Announce()
	return nil
}

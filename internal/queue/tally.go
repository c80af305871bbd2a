package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/schemas/item"
)

// Kinds of counters. Those of a queue are ten times its number and more, with
// the key 0. Those from ForKinds up to ten times FirstOwn are for what kinds of
// items count besides, and from 900 on for what jobs count.
const (
	ForKinds int32 = 100

	countReady   int32 = 4
	countDelayed int32 = 5
	countDead    int32 = 6

	countCancelled int32 = 7 // kept by kinds of items
)

// counter is a counter of a queue: a status, or one of those above.
func counter(q ID, what int32) int32 { return int32(q)*10 + what }

const sqlSums = "SELECT kind, key, n FROM millrace.tally UNION ALL SELECT kind, key, n FROM millrace.tally_delta"

// Sums calls each with every counter, all of one moment, by key. What it costs
// does not depend on the number of items.
func (s *Store) Sums(ctx context.Context, each func(kind, key int32, n int64)) error {
	return sums(ctx, s.pool, each, "")
}

// SumsOf does so with the counters of some kinds.
func SumsOf(ctx context.Context, pool *pgxpool.Pool, each func(kind, key int32, n int64), kinds ...int32) error {
	return sums(ctx, pool, each, "WHERE kind = ANY ($1)", kinds)
}

func sums(
	ctx context.Context, pool *pgxpool.Pool, each func(kind, key int32, n int64), where string, args ...any,
) error {
	rows, err := pool.Query(ctx,
		"SELECT kind, key, sum(n)::bigint FROM ("+sqlSums+") AS t "+where+" GROUP BY kind, key ORDER BY key, kind", args...)
	if err != nil {
		return fmt.Errorf("sum counters: %w", err)
	}
	var kind, key int32
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &key, &n}, func() error {
		each(kind, key, n)
		return nil
	})
	if err != nil {
		return fmt.Errorf("sum counters: %w", err)
	}
	return nil
}

// deltas are what a transaction adds to counters.
type deltas map[delta]int64

type delta struct{ kind, key int32 }

func (d deltas) add(kind, key int32, n int64) { d[delta{kind, key}] += n }

// queue adds the statement that writes them.
func (d deltas) queue(b *pgx.Batch) {
	kinds, keys, ns := make([]int32, 0, len(d)), make([]int32, 0, len(d)), make([]int64, 0, len(d))
	for k, n := range d {
		if n != 0 {
			kinds, keys, ns = append(kinds, k.kind), append(keys, k.key), append(ns, n)
		}
	}
	if len(kinds) > 0 {
		b.Queue(sqlTally, kinds, keys, ns)
	}
}

// follow writes what the changes add to the counters, and what the kind has to
// say, and returns the changes. What is in ready and in delayed is counted where it changes.
func (w *Work) follow() []Change {
	d := deltas{}
	all := make([]Change, len(w.changes))
	for i, c := range w.changes {
		d.add(counter(w.queue, int32(c.before.Status)), 0, -1)
		d.add(counter(w.queue, int32(c.state.Status)), 0, +1)
		if w.dead(c) && !w.sql.StatusOnly {
			d.add(counter(w.queue, countDead), 0, +1)
		}
		all[i] = Change{ID: c.id, Part: c.part, Move: w.move, Before: c.before, After: c.state, Command: c.command}
	}
	w.kind.Follow(w.Batch, w.queue, w.move, all, d.add)
	d.queue(w.Batch)
	return all
}

// dead tells whether a change has made an item dead.
func (w *Work) dead(c change) bool {
	return c.state.Status == item.Failed && (c.state.Dead() || w.move == item.Cancel)
}

package tracking

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Transition is one line of the history of a shard.
type Transition struct {
	queue.Transition
	Filename string
	Shard    int32
}

// Stage is that of the item.
func (t Transition) Stage() shard.Stage { return shard.Stage(t.Queue) }

// HistoryPage asks for what happened to the items of a file.
type HistoryPage struct {
	Filename string
	Shard    *int32       // nil: of all
	Stage    *shard.Stage // nil: at all
	Limit    int
	After    queue.Place // begin behind it
}

// History returns what happened to the items of a file, in the order in which
// it happened.
func (s *Store) History(ctx context.Context, p HistoryPage) ([]Transition, error) {
	sql := "SELECT " + transitionColumns + ` WHERE t.filename = $1 AND (h.tx, h.id) > ($2::xid8, $3)
		AND ($4::integer IS NULL OR t.shard = $4) AND ($5::smallint IS NULL OR h.stage = $5) ORDER BY h.tx, h.id
		LIMIT $6`
	all, err := s.transitions(ctx, sql, p.Filename, p.After.TX, p.After.ID, p.Shard,
		(*int16)(p.Stage), p.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", p.Filename, err)
	}
	return all, nil
}

// Follow returns up to limit transitions behind a place, of all files. It
// leaves out those that others may still come before: what a transaction that
// is under way has written comes when it has ended.
func (s *Store) Follow(ctx context.Context, after queue.Place, limit int) ([]Transition, error) {
	sql := "SELECT " + transitionColumns + ` WHERE (h.tx, h.id) > ($1::xid8, $2)
		AND h.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY h.tx, h.id LIMIT $3`
	all, err := s.transitions(ctx, sql, after.TX, after.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("follow the history behind %s: %w", after, err)
	}
	return all, nil
}

// Now is the place behind everything that Follow returns now.
func (s *Store) Now(ctx context.Context) (queue.Place, error) { return s.queues.Now(ctx) }

const transitionColumns = `h.tx, h.id, h.stage, h.item_id, t.filename, t.shard, h.move::text, h.status::text, h.attempt,
	coalesce(h.worker, ''), coalesce(h.error, ''), h.at
	FROM millrace.history AS h JOIN millrace.pipeline_tracking AS t ON t.id = h.item_id`

func (s *Store) transitions(ctx context.Context, sql string, args ...any) ([]Transition, error) {
	rows, _ := s.pool.Query(ctx, sql, args...)
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (v Transition, err error) {
		return v, r.Scan(&v.Place.TX, &v.Place.ID, &v.Queue, &v.Item, &v.Filename, &v.Shard, &v.Move, &v.Status, &v.Attempt,
			&v.Worker, &v.Error, &v.At)
	})
}

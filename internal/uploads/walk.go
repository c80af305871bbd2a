package uploads

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// walking has the statements behind it in a transaction walk indexes, whatever Postgres knows of the tables: it may sort no
// items where an index has them in their order, and has one plan for all parameters. What it knows of an upload is of some
// time before, or nothing, so that it takes all items for a few that are quickly sorted.
//
// The plan is certain where no other index has the order. That is why statements do not say that the status of items is
// one, but that it is no less and no more, and order by it: else an index by row_no alone would do, by which those of a
// status that no item has are looked for among all.
const walking = `SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
	set_config('enable_bitmapscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`

// walked ends it for what follows in the transaction.
const walked = `SELECT set_config('enable_sort', 'on', true), set_config('enable_incremental_sort', 'on', true),
	set_config('enable_bitmapscan', 'on', true), set_config('plan_cache_mode', 'auto', true)`

// walk runs a statement so, and has its rows read.
func (s *Store) walk(ctx context.Context, sql string, args []any, read func(pgx.Rows) error) error {
	var both pgx.Batch // is a transaction
	both.Queue(walking)
	var failed error
	both.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		failed = read(rows)
		return failed
	})
	return errors.Join(failed, s.pool.SendBatch(ctx, &both).Close())
}

package uploads

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// walking has the statements that follow it in a transaction read indexes in order, whatever statistics Postgres has: it may
// not sort, and makes one plan for all parameters. Statistics of an upload are old or absent while it grows, by which Postgres
// expects a few items, and plans to read and sort all of them.
//
// With that, only an index in the order of the statement can be used. Statements therefore order by status first, and say
// that the status is at least and at most the one asked for. With status = s.status Postgres could also use the primary key,
// and would read all items of an upload to find those of a status that none has.
const walking = `SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
	set_config('enable_bitmapscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`

// walked has what follows in the transaction planned as usual again.
const walked = `SELECT set_config('enable_sort', 'on', true), set_config('enable_incremental_sort', 'on', true),
	set_config('enable_bitmapscan', 'on', true), set_config('plan_cache_mode', 'auto', true)`

// walk runs a statement behind walking, in a transaction of its own, and has read take its rows.
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

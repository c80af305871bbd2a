package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/job"
)

// Numbers count jobs, and their runs that are under way.
type Numbers struct {
	ByStatus   map[string]int64
	ByPriority map[int]int64
	Resting    int64 // jobs that wait for the end of a backoff
	Queued     int64 // runs that no worker has taken
	Active     int64 // runs that a worker has
}

// Numbers count jobs and runs as they are now. They read all jobs.
func (s *Store) Numbers(ctx context.Context) (*Numbers, error) {
	n := &Numbers{ByStatus: map[string]int64{}, ByPriority: map[int]int64{}}
	for _, status := range job.Statuses {
		n.ByStatus[status] = 0
	}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return n.count(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM millrace.claim AS c JOIN millrace.stage AS s ON s.stage = c.stage
		WHERE s.name = 'crawl'`).Scan(&n.Active)
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	n.Queued = max(0, n.Queued-n.Active) // read a moment before
	return n, nil
}

// count reads the jobs, and leaves the processors to what is more urgent.
func (n *Numbers) count(ctx context.Context, tx pgx.Tx) error {
	// The pool plans for single rows.
	_, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = on; SET LOCAL max_parallel_workers_per_gather = 0")
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `SELECT status, priority, count(*),
			count(*) FILTER (WHERE backoff_until > now() AND status NOT IN ('paused', 'orphaned')),
			coalesce(sum(running), 0)
		FROM millrace.jobs GROUP BY 1, 2`)
	if err != nil {
		return err
	}
	var status string
	var priority int
	var count, resting, running int64
	_, err = pgx.ForEachRow(rows, []any{&status, &priority, &count, &resting, &running}, func() error {
		n.ByStatus[status] += count
		n.ByPriority[priority] += count
		n.Resting += resting
		n.Queued += running
		return nil
	})
	return err
}

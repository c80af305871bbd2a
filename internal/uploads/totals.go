package uploads

import (
	"context"
	"fmt"
	"time"
)

// Totals are all uploads in numbers.
type Totals struct {
	Jobs map[string]int // by state
	// Pending and Processing are items of all uploads that are neither deleted nor cancelled.
	Pending, Processing int64
	// Ended is how many items of all uploads have final statuses.
	Ended int64
	// Recent, Errors and NotFound are items with final statuses, of uploads that are open or ended within an hour.
	Recent, Errors, NotFound int64
	// Silent is for how long a process has done nothing for the upload that has waited longest for one.
	Silent time.Duration
	// Export is how long ago the oldest export that is not made yet was asked for; 0: there is none.
	Export time.Duration
}

// Totals reads the counters of uploads, and no item.
func (s *Store) Totals(ctx context.Context) (t Totals, err error) {
	t.Jobs = map[string]int{}
	rows, err := s.pool.Query(ctx, `SELECT queue_state, count(*),
			coalesce(sum(pending) FILTER (WHERE cancelled_at IS NULL), 0),
			coalesce(sum(processing) FILTER (WHERE cancelled_at IS NULL), 0),
			coalesce(sum(done + error + not_found + skipped), 0),
			coalesce(sum(done + error + not_found) FILTER (WHERE recent), 0),
			coalesce(sum(error) FILTER (WHERE recent), 0), coalesce(sum(not_found) FILTER (WHERE recent), 0),
			coalesce(extract(epoch FROM max(now() - last_heartbeat)
				FILTER (WHERE queue_state IN ('QUEUED', 'RUNNING'))), 0)::float8
		FROM (SELECT *, coalesce(finished_at > now() - interval '1 hour', true) AS recent FROM millrace.upload
			WHERE received_at IS NOT NULL AND deleted_at IS NULL) AS u GROUP BY queue_state`)
	if err != nil {
		return t, fmt.Errorf("count uploads: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var state string
		var jobs int
		var pending, processing, ended, recent, errors, notFound int64
		var silent float64
		if err := rows.Scan(&state, &jobs, &pending, &processing, &ended, &recent, &errors, &notFound, &silent); err != nil {
			return t, fmt.Errorf("count uploads: %w", err)
		}
		t.Jobs[state] = jobs
		t.Pending, t.Processing, t.Ended = t.Pending+pending, t.Processing+processing, t.Ended+ended
		t.Recent, t.Errors, t.NotFound = t.Recent+recent, t.Errors+errors, t.NotFound+notFound
		t.Silent = max(t.Silent, time.Duration(silent*float64(time.Second)))
	}
	if err := rows.Err(); err != nil {
		return t, fmt.Errorf("count uploads: %w", err)
	}
	var waits float64
	if err := s.pool.QueryRow(ctx, `SELECT coalesce(extract(epoch FROM max(now() - created_at)), 0)::float8
		FROM millrace.upload_export WHERE state IN ('QUEUED', 'RUNNING')`).Scan(&waits); err != nil {
		return t, fmt.Errorf("look for the oldest export: %w", err)
	}
	t.Export = time.Duration(waits * float64(time.Second))
	return t, nil
}

// retireLimit is how many uploads one look retires.
const retireLimit = 1000

// Retire deletes uploads that ended so long ago, as their users may, and returns how many.
func (s *Store) Retire(ctx context.Context, keep time.Duration) (int64, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE millrace.upload SET deleted_at = now() WHERE no IN (
			SELECT no FROM millrace.upload WHERE finished_at < now() - make_interval(secs => $1) AND deleted_at IS NULL
			AND received_at IS NOT NULL AND queue_state IN ('DONE', 'FAILED') ORDER BY no LIMIT $2)
		AND finished_at < now() - make_interval(secs => $1) AND deleted_at IS NULL AND queue_state IN ('DONE', 'FAILED')`,
		keep.Seconds(), retireLimit)
	if err != nil {
		return 0, fmt.Errorf("delete uploads whose retention has passed: %w", err)
	}
	s.awake()
	return tag.RowsAffected(), nil
}

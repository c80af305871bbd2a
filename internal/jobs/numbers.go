package jobs

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/internal/queue"
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

// Kinds of counters in the table tally, which the database keeps as jobs change.
const (
	jobCounter = 900 // with the keys 10 * priority + place in job.Statuses
	runCounter = 901 // runs under way
)

// Numbers count jobs and runs as they are now. What it costs does not depend on how many
// jobs there are, but on how many of them rest and run.
func (s *Store) Numbers(ctx context.Context) (*Numbers, error) {
	n := &Numbers{ByStatus: map[string]int64{}, ByPriority: map[int]int64{}}
	for _, status := range job.Statuses {
		n.ByStatus[status] = 0
	}
	err := queue.SumsOf(ctx, s.pool, func(kind, key int32, count int64) {
		if kind == runCounter {
			n.Queued = count
			return
		}
		n.ByStatus[job.Statuses[key%10]] += count
		if count != 0 {
			n.ByPriority[int(key/10)] += count
		}
	}, jobCounter, runCounter)
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	err = s.pool.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM millrace.job_status
				WHERE backoff_until > now() AND status NOT IN ('paused', 'orphaned')),
			(SELECT count(*) FROM millrace.claim AS c JOIN millrace.stage AS s ON s.stage = c.stage
				WHERE s.name = 'crawl')`).Scan(&n.Resting, &n.Active)
	if err != nil {
		return nil, fmt.Errorf("count jobs that rest, and runs: %w", err)
	}
	n.Queued = max(0, n.Queued-n.Active) // read a moment before
	return n, nil
}

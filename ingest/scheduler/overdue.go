package scheduler

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/sampler"
)

var sqlOverdue = withPriorities("overdue")

// Overdue returns the gauges of jobs that are due and about which no scheduler has
// decided. They need no scheduler, so they tell when there is none.
func Overdue(pool *pgxpool.Pool) sampler.Source {
	late := sampler.NewGauge("millrace_scheduler_overdue_seconds",
		"How long the job that has been due for longest waits for a scheduler; 0 when none is due.")
	return sampler.Source{
		Name: "scheduler", Gauges: []*sampler.Gauge{late},
		Read: func(ctx context.Context, set sampler.Set) error {
			var seconds float64
			if err := pool.QueryRow(ctx, sqlOverdue).Scan(&seconds); err != nil {
				return fmt.Errorf("read the first due time of jobs: %w", err)
			}
			set(late, seconds)
			return nil
		},
	}
}

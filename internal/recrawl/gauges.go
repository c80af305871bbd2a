package recrawl

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/batches"
)

// Gauges returns the gauges of items that wait to be tried again. Any process that reaches
// Postgres can tell.
func Gauges(pool *pgxpool.Pool) sampler.Source {
	wait := sampler.NewGauge("millrace_batches_retries_waiting",
		"Items of batches that wait to be tried again, and are not in their queue yet.", "queue")
	late := sampler.NewGauge("millrace_batches_retries_overdue_seconds",
		"How long the oldest of them has been due; 0: none is.", "queue")
	return sampler.Source{
		Name: "batches_retries", Gauges: []*sampler.Gauge{wait, late},
		Read: func(ctx context.Context, set sampler.Set) error {
			counts, ages := map[string]int64{}, map[string]float64{}
			rows, err := pool.Query(ctx, `SELECT queue, count(*),
				greatest(extract(epoch FROM clock_timestamp() - min(due_at)), 0)::float8
				FROM millrace.batch_error WHERE state = 'waiting' GROUP BY queue`)
			if err == nil {
				var name string
				var n int64
				var age float64
				_, err = pgx.ForEachRow(rows, []any{&name, &n, &age}, func() error {
					counts[name], ages[name] = n, age
					return nil
				})
			}
			if err != nil {
				return fmt.Errorf("count the items that are to be tried again: %w", err)
			}
			for _, p := range batches.Policies() {
				set(wait, float64(counts[p.Queue]), p.Queue)
				set(late, ages[p.Queue], p.Queue)
			}
			return nil
		},
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// noop is a job that does nothing.
type noop struct {
	N int `json:"n"`
}

// Kind names the job for River.
func (noop) Kind() string { return "noop" }

// noops works the jobs.
type noops struct {
	river.WorkerDefaults[noop]
	left atomic.Int64
	all  chan struct{}
}

// Work counts the job.
func (w *noops) Work(context.Context, *river.Job[noop]) error {
	if w.left.Add(-1) == 0 {
		close(w.all)
	}
	return nil
}

// riverSpeed returns the speed of River, from the start of its
// client until the end of the last one is durable.
func riverSpeed(ctx context.Context, pool *pgxpool.Pool, n int) (speed, error) {
	if err := migrateRiver(ctx, pool); err != nil {
		return speed{}, err
	}
	w := &noops{all: make(chan struct{})}
	w.left.Store(int64(n))
	all := river.NewWorkers()
	river.AddWorker(all, w)
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: all,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return speed{}, err
	}
	for i := 0; i < n; {
		var jobs []river.InsertManyParams
		for range min(5000, n-i) {
			jobs = append(jobs, river.InsertManyParams{Args: noop{i}})
			i++
		}
		if _, err := c.InsertManyFast(ctx, jobs); err != nil {
			return speed{}, err
		}
	}
	watch := newStopwatch()
	if err := c.Start(ctx); err != nil {
		return speed{}, err
	}
	select {
	case <-w.all:
	case <-ctx.Done():
		return speed{}, ctx.Err()
	}
	if err := c.Stop(ctx); err != nil { // returns when every end is durable
		return speed{}, err
	}
	v := watch.stop(n)
	var done int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&done); err != nil ||
		done != n {
		return speed{}, errors.Join(fmt.Errorf("%d of %d jobs are completed", done, n), err)
	}
	return v, dropRiver(ctx, pool)
}

// migrateRiver makes the tables of River unless they are there.
func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	return runRiverMigrations(ctx, pool, rivermigrate.DirectionUp, nil)
}

// dropRiver drops them. If they were only emptied, Postgres would plan by the statistics of their earlier rows.
func dropRiver(ctx context.Context, pool *pgxpool.Pool) error {
	return runRiverMigrations(ctx, pool, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1})
}

// runRiverMigrations makes the tables of River, or drops them.
func runRiverMigrations(
	ctx context.Context, pool *pgxpool.Pool, to rivermigrate.Direction, opts *rivermigrate.MigrateOpts,
) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, to, opts)
	return err
}

// pollSpeed returns the speed of a loop that takes ten at a
// time and writes the end of each by a statement of its own.
func pollSpeed(ctx context.Context, pool *pgxpool.Pool, n int) (speed, error) {
	for _, sql := range []string{
		"DROP TABLE IF EXISTS bench_poll",
		"CREATE TABLE bench_poll (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'new', updated_at timestamptz " +
			"NOT NULL DEFAULT now())",
		"CREATE INDEX ON bench_poll (id) WHERE status = 'new'",
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return speed{}, err
		}
	}
	if _, err := pool.Exec(ctx, "INSERT INTO bench_poll (id) SELECT generate_series(1, $1::bigint)", n); err != nil {
		return speed{}, err
	}
	watch := newStopwatch()
	for done := 0; done < n; {
		rows, err := pool.Query(ctx, `UPDATE bench_poll SET status = 'started', updated_at = now() WHERE id IN (
			SELECT id FROM bench_poll WHERE status = 'new' ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED) RETURNING id`)
		if err != nil {
			return speed{}, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return speed{}, err
		}
		for _, id := range ids {
			if _, err := pool.Exec(ctx, "UPDATE bench_poll SET status = 'done', updated_at = now() WHERE id = $1",
				id); err != nil {
				return speed{}, err
			}
		}
		done += len(ids)
	}
	v := watch.stop(n)
	_, err := pool.Exec(ctx, "DROP TABLE bench_poll")
	return v, err
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// instant is when a burst of periodic jobs of River is due: the next whole period after
// the leader has them.
type instant struct {
	mu sync.Mutex
	at time.Time
}

// once is due at the instant, and then no more while it is measured.
func (i *instant) once(period time.Duration) river.PeriodicSchedule {
	asked := false
	return scheduleFunc(func(now time.Time) time.Time {
		if asked {
			return now.Add(24 * time.Hour)
		}
		asked = true
		i.mu.Lock()
		defer i.mu.Unlock()
		i.at = now.Truncate(period).Add(period)
		return i.at
	})
}

type scheduleFunc func(time.Time) time.Time

// Next is when a job is due next.
func (f scheduleFunc) Next(now time.Time) time.Time { return f(now) }

// riverBurst returns the speed at which the leader of River makes the jobs of n periodic
// jobs that are due at one instant, from that until they are committed. River keeps its
// periodic jobs in the memory of the leader, and writes one row for each.
func riverBurst(ctx context.Context, pool *pgxpool.Pool, n int) (speed, error) {
	if err := migrateRiver(ctx, pool); err != nil {
		return speed{}, err
	}
	due := new(instant)
	var jobs []*river.PeriodicJob
	for i := range n {
		jobs = append(jobs, river.NewPeriodicJob(due.once(time.Second),
			func() (river.JobArgs, *river.InsertOpts) { return noop{i}, nil }, nil))
	}
	all := river.NewWorkers()
	river.AddWorker(all, &noops{})
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: all, PeriodicJobs: jobs,
		Queues: map[string]river.QueueConfig{"idle": {MaxWorkers: 1}}, // nobody works the jobs
	})
	if err != nil {
		return speed{}, err
	}
	if err := c.Start(ctx); err != nil {
		return speed{}, err
	}
	v, err := due.measure(ctx, pool, n)
	if stopped := c.Stop(ctx); err == nil {
		err = stopped
	}
	if err != nil {
		return speed{}, err
	}
	return v, dropRiver(ctx, pool)
}

// measure waits for the instant, and for the jobs.
func (i *instant) measure(ctx context.Context, pool *pgxpool.Pool, n int) (speed, error) {
	at := func() time.Time { i.mu.Lock(); defer i.mu.Unlock(); return i.at }
	for deadline := time.Now().Add(time.Minute); at().IsZero() || time.Until(at()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return speed{}, fmt.Errorf("no leader has the periodic jobs")
		}
	}
	watch, there := newStopwatch(), 0
	for deadline := time.Now().Add(time.Minute); there < n; time.Sleep(5 * time.Millisecond) {
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job").Scan(&there); err != nil {
			return speed{}, err
		}
		if time.Now().After(deadline) {
			return speed{}, fmt.Errorf("%d of %d jobs were made", there, n)
		}
	}
	v := watch.stop(n)
	v.rate = float64(n) / time.Since(at()).Seconds()
	return v, nil
}

// lates notes how late jobs are worked.
type lates struct {
	river.WorkerDefaults[noop]
	mu   sync.Mutex
	late []time.Duration
	want int
	all  chan struct{}
}

// Work notes the time from when the job was due.
func (w *lates) Work(_ context.Context, job *river.Job[noop]) error {
	late := time.Since(job.ScheduledAt)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late = append(w.late, late); len(w.late) == w.want {
		close(w.all)
	}
	return nil
}

// punctuality is how late jobs were, and their cost.
type punctuality struct {
	late []time.Duration
	cpu  float64 // µs for each
}

// riverLateness has as many periodic jobs of River as are to be due each second be due
// each second, one after the other: the fewest that make that rate, so that its leader,
// which reads through all of them whenever one is due, has the least to do.
func riverLateness(ctx context.Context, pool *pgxpool.Pool, rate, seconds int) (punctuality, error) {
	if err := migrateRiver(ctx, pool); err != nil {
		return punctuality{}, err
	}
	var jobs []*river.PeriodicJob
	for i := range rate {
		offset := time.Duration(i) * time.Second / time.Duration(rate)
		each := scheduleFunc(func(now time.Time) time.Time {
			return now.Add(-offset).Truncate(time.Second).Add(time.Second + offset)
		})
		jobs = append(jobs, river.NewPeriodicJob(each,
			func() (river.JobArgs, *river.InsertOpts) { return noop{i}, nil }, nil))
	}
	w := &lates{want: rate * seconds, all: make(chan struct{})}
	all := river.NewWorkers()
	river.AddWorker(all, w)
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: all, PeriodicJobs: jobs,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return punctuality{}, err
	}
	if err := c.Start(ctx); err != nil {
		return punctuality{}, err
	}
	watch := newStopwatch()
	select {
	case <-w.all:
	case <-time.After(time.Duration(seconds)*2*time.Second + time.Minute):
		err = fmt.Errorf("%d periodic jobs due each second were not worked in twice their time", rate)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if stopped := c.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopped
	}
	if err != nil {
		return punctuality{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.late)
	v := punctuality{w.late, watch.stop(len(w.late)).cpu}
	return v, dropRiver(ctx, pool)
}

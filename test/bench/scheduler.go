package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// scheduler measures the scheduler while it holds as many jobs as the history has
// events: what they cost while none is due, a burst that is due at one instant, and how
// late runs are that are due one after the other. The periodic jobs of River do the
// same on the same Postgres; see riverBurst and riverLateness for what is compared.
func (b *bench) scheduler(ctx context.Context) (err error) {
	m, err := b.empty(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(), os.RemoveAll(m.data)) }()
	pool, err := m.postgresPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := &schedules{bench: b, m: m, pool: pool}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{{"holding jobs", s.hold}, {"a burst", s.burst}, {"lateness", s.lateness}, {"the audit", s.audit}} {
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// schedules are the jobs of a program.
type schedules struct {
	*bench
	m     *millrace
	pool  *pgxpool.Pool
	begin time.Time
	fired int // of the jobs, due by now
}

var (
	//go:embed sql/jobs.sql
	makeJobs string
	//go:embed sql/endschedule.sql
	endSchedule string
	//go:embed sql/reschedule.sql
	reschedule string
	//go:embed sql/look.sql
	look string
)

// make makes the jobs, none of which is due while the program runs.
func (s *schedules) make(ctx context.Context, n int) error {
	const some = 50_000
	for from := 0; from < n; from += some {
		first := s.begin.Add(24*time.Hour + time.Duration(from)*time.Millisecond)
		if _, err := s.pool.Exec(ctx, makeJobs, from, min(from+some, n)-1, first); err != nil {
			return fmt.Errorf("make jobs: %w", err)
		}
	}
	return nil
}

// soon has n jobs, which are spread over all, be due soon, each some time after the one
// before, and once while the program runs. It returns when the first is. Which jobs these
// are depends on which, 0 or 10; a job in twenty is one of them at most.
func (s *schedules) soon(ctx context.Context, n, which int, apart time.Duration) (first time.Time, err error) {
	s.fired += n
	begin := time.Now()
	far := begin.Add(24 * time.Hour) // to begin with: that says how long it takes
	for lead := 48 * time.Hour; ; lead = time.Second + 3*time.Since(begin) {
		first = time.Now().Add(lead).Truncate(time.Millisecond)
		moved := 0
		for ; moved < n && err == nil; moved += step {
			err = s.reschedule(ctx, moved, min(moved+step, n), which, first, apart, lead/4)
		}
		switch {
		case errors.Is(err, errLate) && moved == step: // nothing was: once more, with more time
			err = nil
		case err != nil || first.Before(far):
			return first, err
		}
	}
}

// step is how many jobs get their schedules at once.
const step = 500

// errLate is the error of jobs that would have their schedule too late.
var errLate = errors.New("the time to set schedules is too short")

// reschedule sets schedules unless the first is due in less than spare by then.
func (s *schedules) reschedule(
	ctx context.Context, from, to, which int, first time.Time, apart, spare time.Duration,
) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, endSchedule, from, to, which)
		if err == nil {
			_, err = tx.Exec(ctx, reschedule, from, to, which, first, apart.Microseconds())
		}
		if err == nil && time.Until(first) < spare {
			err = errLate
		}
		return err
	})
	if err == nil {
		_, err = s.pool.Exec(ctx, look, from, to, which)
	}
	return err
}

// hold makes the jobs that are due when all is over, and measures what they cost.
func (s *schedules) hold(ctx context.Context) error {
	empty, err := s.rest(ctx)
	if err != nil {
		return err
	}
	n := s.cfg.events
	s.say("making %d jobs", n)
	s.begin = time.Now()
	if err := s.make(ctx, n); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	var size int64
	if err := s.pool.QueryRow(ctx, `SELECT sum(pg_total_relation_size('millrace.' || t))
		FROM unnest('{source,source_state,job_settings,job_status,job_schedule}'::text[]) AS t`).Scan(&size); err != nil {
		return err
	}
	full, err := s.rest(ctx)
	if err != nil {
		return err
	}
	const name, peer = "scheduler", "without jobs"
	s.add(
		line{name, "jobs held", "jobs", more, float64(n), "the promise", 1_000_000},
		line{name, "their size on disk, with sources and indexes", "bytes/job", less, float64(size) / float64(n), "", 0},
		line{
			name, "memory of the whole tree, none due (PSS)", "MB", less, megabytes(full.memory), peer,
			megabytes(empty.memory),
		},
		line{name, "processor time of the whole tree, none due", "ms/s", less, full.cpu, peer, empty.cpu},
		line{name, "a look for due jobs, none due", "ms", less, full.look, peer, empty.look},
	)
	return nil
}

// settle has Postgres do what it does in time by itself.
func (s *schedules) settle(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "VACUUM (ANALYZE) millrace.source, millrace.source_state, millrace.job_settings, "+
		"millrace.job_status, millrace.job_schedule, millrace.job_ledger, millrace.executions, millrace.item")
	return err
}

// audit has the program compare all due times until now with its ledger.
func (s *schedules) audit(ctx context.Context) error {
	var found struct {
		Due, Pending, Missed, Doubled int
		Outcomes                      map[string]int
	}
	start := time.Now()
	err := s.m.get(ctx, "/jobs/audit", map[string][]string{
		"from": {s.begin.UTC().Format(time.RFC3339Nano)}, "to": {start.UTC().Format(time.RFC3339Nano)},
	}, &found)
	took := time.Since(start)
	if err != nil {
		return err
	}
	if found.Due != s.fired || found.Outcomes["ran"] != s.fired || found.Missed+found.Doubled+found.Pending > 0 {
		return fmt.Errorf("%d were due, the audit found %+v", s.fired, found)
	}
	s.add(line{"scheduler", "audit of all jobs", "s", less, took.Seconds(), "", 0})
	return nil
}

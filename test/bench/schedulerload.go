package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/client"
)

// crawl is the queue of runs.
const crawl = "crawl"

// resting is what a program costs that has nothing to do.
type resting struct {
	cpu    float64 // processor time, ms for each second
	memory int64   // bytes, a page that processes share once
	look   float64 // ms for each look of the scheduler
}

// rest measures a program that has nothing to do.
func (s *schedules) rest(ctx context.Context) (r resting, err error) {
	long := max(2*s.window(), time.Second) // of which processor time is told in ticks
	s.say("resting for %v", long)
	time.Sleep(long / 2) // what was begun before comes to its end
	count, seconds, err := s.looks(ctx)
	if err != nil {
		return r, err
	}
	memory := watch(s.m.pid())
	begin, cpu := time.Now(), spentByFamily(s.m.pid())
	time.Sleep(long)
	took := time.Since(begin).Seconds()
	cpu = spentByFamily(s.m.pid()) - cpu
	r = resting{cpu: 1e3 * cpu.Seconds() / took, memory: memory.end().PSS}
	counted, summed, err := s.looks(ctx)
	r.look = 1e3 * (summed - seconds) / max(1, counted-count)
	return r, err
}

// looks are how often the scheduler has looked for due jobs, and for how long.
func (s *schedules) looks(ctx context.Context) (count, seconds float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.m.http+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		return 0, 0, fmt.Errorf("read metrics: %w", err)
	}
	for line := range bytes.Lines(text.Bytes()) {
		f := bytes.Fields(line)
		if len(f) != 2 {
			continue
		}
		v, _ := strconv.ParseFloat(string(f[1]), 64)
		switch string(f[0]) {
		case "millrace_scheduler_look_seconds_count":
			count = v
		case "millrace_scheduler_look_seconds_sum":
			seconds = v
		}
	}
	if count == 0 {
		return 0, 0, errors.New("the scheduler has not looked for due jobs")
	}
	return count, seconds, nil
}

// noneDue tells whether no job is due by a time: the index of due times has the jobs of a
// priority in their order.
const noneDue = `SELECT NOT EXISTS (SELECT FROM generate_series(0, 100) AS p, LATERAL (
	SELECT FROM millrace.job_status WHERE priority = p AND due_at <= $1 ORDER BY due_at LIMIT 1) AS j)`

// burst has many jobs be due at one instant, which nobody works yet, and then works them.
func (s *schedules) burst(ctx context.Context) error {
	n := max(100, s.cfg.events/20)
	s.say("%d jobs are due at once", n)
	at, err := s.soon(ctx, n, 0, 0)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(at))
	profiled := s.profile(ctx, s.m, max(1, n/10_000))
	watch := newStopwatch()
	if err := s.until(ctx, "all are decided", noneDue, at); err != nil {
		return err
	}
	own := watch.stop(n)
	own.rate = float64(n) / time.Since(at).Seconds()
	if err := errors.Join(<-profiled, s.check(ctx, at, at.Add(time.Microsecond), n, 0)); err != nil {
		return err
	}
	s.say("dispatched %.0f jobs/s, working them", own.rate)
	worked, err := s.workOff(ctx, at, n)
	if err != nil {
		return err
	}
	s.say("%d periodic jobs of River are due at once", n)
	river, err := riverBurst(ctx, s.pool, n)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	const name, peer = "scheduler", "River, periodic jobs in memory, no ledger"
	s.add(
		line{name, "burst at one instant, ledger, run and item", "dispatches/s", more, own.rate, "the promise", 10_000},
		line{name, "", "dispatches/s", more, own.rate, peer, river.rate},
		line{name, "processor time in the burst", "µs/dispatch", less, own.cpu, peer, river.cpu},
		line{name, "no-op runs worked, and followed to their end", "runs/s", more, worked.rate, "", 0},
		line{name, "processor time of a run worked and followed", "µs/run", less, worked.cpu, "", 0},
	)
	return nil
}

// until waits until a statement says true.
func (s *schedules) until(ctx context.Context, what, sql string, args ...any) error {
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var done bool
		if err := s.pool.QueryRow(ctx, sql, args...).Scan(&done); err != nil {
			return err
		}
		if done {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after 5 minutes it is not so that %s", what)
		}
	}
}

//go:embed sql/fired.sql
var firedSQL string

// check compares: each job that was due from an instant to before another has one row in
// the ledger and one run with an item, and as many of the runs as said have ended well.
func (s *schedules) check(ctx context.Context, from, to time.Time, n, ended int) error {
	var jobs, decided, runs, ends int
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL enable_nestloop = off"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, firedSQL, from, to).Scan(&jobs, &decided, &runs, &ends)
	})
	if err != nil {
		return err
	}
	if jobs != n || decided != n || runs != n || ends != ended {
		return fmt.Errorf("of %d due times (%d), %d have one row in the ledger, %d one run with an item, %d of %d "+
			"have ended", n, jobs, decided, runs, ends, ended)
	}
	return nil
}

// worker takes runs that do nothing and notes how late it got each.
type worker struct {
	mu   sync.Mutex
	late []time.Duration
	want int
	all  chan struct{}
}

func (w *worker) work(_ context.Context, item client.Item) error {
	now := time.Now()
	var run struct {
		DueAt time.Time `json:"due_at"`
	}
	if err := json.Unmarshal(item.Payload, &run); err != nil {
		return client.Permanent(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late = append(w.late, now.Sub(run.DueAt)); len(w.late) == w.want {
		close(w.all)
	}
	return nil
}

// take works runs until there were as many as wanted, and each end is durable.
func (s *schedules) take(ctx context.Context, n int) ([]time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, 15*time.Minute)
	defer stop()
	w := &worker{want: n, all: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- client.Work(ctx, s.m.nc, crawl, w.work, client.WorkConfig{Concurrency: workers}) }()
	select {
	case <-w.all:
	case err := <-ended:
		return nil, errors.Join(errors.New("the worker ended early"), err)
	}
	stop()
	err := <-ended
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late, err
}

// workOff works runs that were due at an instant, until the scheduler has followed each.
func (s *schedules) workOff(ctx context.Context, at time.Time, n int) (speed, error) {
	watch := newStopwatch()
	late, err := s.take(ctx, n)
	if err != nil {
		return speed{}, err
	}
	if err := s.followed(ctx); err != nil {
		return speed{}, err
	}
	if len(late) != n {
		return speed{}, fmt.Errorf("%d runs were worked of %d", len(late), n)
	}
	return watch.stop(n), s.check(ctx, at, at.Add(time.Microsecond), n, n)
}

// followed waits until the scheduler has followed all changes of runs.
func (s *schedules) followed(ctx context.Context) error {
	return s.until(ctx, "the scheduler has followed all", "SELECT NOT EXISTS (SELECT FROM millrace.run_change)")
}

// lateness has jobs be due one after the other while workers take what there is.
func (s *schedules) lateness(ctx context.Context) error {
	rate, seconds := 1000, 30
	if s.cfg.events < 100_000 {
		rate, seconds = 100, 1
	}
	n := min(rate*seconds, s.cfg.events/20) // see soon
	apart := time.Second / time.Duration(rate)
	s.say("%d jobs are due each second", rate)
	first, err := s.soon(ctx, n, 10, apart)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(first) - 2*time.Second) // the worker is there by then
	watch := newStopwatch()
	late, err := s.take(ctx, n)
	if err != nil {
		return err
	}
	own := watch.stop(n)
	to := first.Add(time.Duration(n) * apart)
	if err := errors.Join(s.followed(ctx), s.check(ctx, first, to, n, n)); err != nil {
		return err
	}
	slices.Sort(late)
	decided, err := s.decided(ctx, first, to)
	if err != nil {
		return err
	}
	s.say("%d periodic jobs of River are due each second", rate)
	river, err := riverLateness(ctx, s.pool, rate, n/rate)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	l, peer := load{latency: late}, load{latency: river.late}
	const name, other = "scheduler", "River, as many periodic jobs in memory"
	s.add(
		line{name, fmt.Sprintf("due time to worker, %d due/s: median", rate), "ms", less, l.at(.5), other, peer.at(.5)},
		line{name, "due time to worker: 99th percentile", "ms", less, l.at(.99), "the promise", 100},
		line{name, "", "ms", less, l.at(.99), other, peer.at(.99)},
		line{name, "due time to worker: worst", "ms", less, l.at(1), other, peer.at(1)},
		line{name, "due time to decision: median", "ms", less, quantile(decided, .5), "", 0},
		line{name, "due time to decision: 99th percentile", "ms", less, quantile(decided, .99), "the promise", 100},
		line{name, "processor time of a run, due to followed", "µs/run", less, own.cpu, other, river.cpu},
	)
	return nil
}

// decided reads how late the transactions began that have decided about due times, in ms.
func (s *schedules) decided(ctx context.Context, from, to time.Time) ([]float64, error) {
	rows, err := s.pool.Query(ctx, `SELECT (1000 * extract(epoch FROM decided_at - due_at))::double precision
		FROM millrace.job_ledger WHERE due_at >= $1 AND due_at < $2`, from, to)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[float64])
}

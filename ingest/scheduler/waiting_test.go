package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/ingest/scheduler"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/job"
)

// cronJob is a job that is due each ten minutes from noon by an expression.
func (s *site) cronJob() uuid.UUID {
	s.Helper()
	id := s.job(0, 10, "schedule_kind = 'cron', cron = '*/10 * * * *'")
	s.exec(`UPDATE millrace.job_schedule SET kind = 'cron', cron = '*/10 * * * *', anchor_at = NULL,
		interval_minutes = NULL, from_at = $2 WHERE job_id = $1`, id, s.noon)
	return id
}

// fail has the run of the only item that can be taken fail.
func (s *site) fail(why string) {
	s.Helper()
	if s.settle(); s.work(item.Start, "") != 1 {
		s.Fatal("no run began")
	}
	s.work(item.Fail, why)
	s.settle()
}

// next shows when a job runs next, by the time of day.
func (s *site) next(id uuid.UUID) string {
	s.Helper()
	d, err := s.jobs().Get(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	if d.NextRunAt == nil {
		return "never"
	}
	return d.NextRunAt.Format("15:04")
}

// TestBackoffInTheLedger: each due time within a backoff has its row as soon as it has passed,
// and says why. The last one runs when the backoff ends, and until then that is when the job
// runs next.
func TestBackoffInTheLedger(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.cronJob()
	s.clock(time.Minute)
	s.fail("no answer") // until 12:21
	s.equal("failed", s.next(j), "12:21")
	s.clock(15 * time.Minute)
	s.settle()
	s.equal("resting", s.ledger(j), "12:00 caught_up, 12:10 backoff")
	s.equal("resting", s.next(j), "12:21")
	s.clock(20*time.Minute + 30*time.Second)
	s.settle()
	s.equal("resting", s.ledger(j), "12:00 caught_up, 12:10 backoff, 12:20 backoff")
	s.equal("resting", s.next(j), "12:21")
	s.clock(21 * time.Minute)
	s.settle()
	s.equal("rested", s.ledger(j), "12:00 caught_up, 12:10 backoff, 12:20 ran")
	s.equal("rested", s.next(j), "12:30")
	if r := s.audit(); !r.Sound() || r.Due != 3 {
		t.Errorf("%+v", r)
	}
}

// TestBackoffEnds: whatever ends a backoff early, what was due in it stays backoff in the ledger.
func TestBackoffEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(s *site, id uuid.UUID) error
		want string
	}{
		"another schedule": {func(s *site, id uuid.UUID) error {
			_, err := s.jobs().Set(s.Context(), id, job.ReadDraft([]byte(`{"cron":"0 13 * * *"}`)))
			return err
		}, "12:00 caught_up, 12:10 backoff, 13:00 ran"},
		"a pause": {func(s *site, id uuid.UUID) error {
			_, err := s.jobs().Do(s.Context(), jobs.OpPause, id)
			return err
		}, "12:00 caught_up, 12:10 backoff, 12:20 paused, 12:30 paused, 12:40 paused, 12:50 paused, 13:00 paused"},
		"a run that succeeds": {func(s *site, id uuid.UUID) error {
			if _, err := s.jobs().Do(s.Context(), jobs.OpForceRun, id); err != nil {
				return err
			}
			s.settle()
			s.work(item.Start, "")
			s.work(item.Complete, "{}")
			return nil
		}, "12:00 caught_up, 12:10 backoff, 12:15 ran forced, 12:20 coalesced, 12:30 coalesced, 12:40 coalesced, " +
			"12:50 coalesced, 13:00 ran"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, scheduler.Config{})
			j := s.cronJob()
			s.clock(time.Minute)
			s.fail("no answer") // until 12:21
			s.clock(15 * time.Minute)
			s.settle()
			if err := tc.end(s, j); err != nil {
				t.Fatal(err)
			}
			s.settle()
			s.clock(time.Hour)
			s.settle()
			s.equal("ledger", s.ledger(j), tc.want)
			if r := s.audit(); !r.Sound() {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestForcedStaysForced: a run that somebody asks for while another goes is forced when it has
// waited, and ignores backoff and crawl windows then.
func TestForcedStaysForced(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 60, "crawl_window_start = 12, crawl_window_end = 13")
	s.settle()
	s.work(item.Start, "")
	s.settle()
	s.clock(70 * time.Minute) // the window is closed
	if _, err := s.jobs().Do(t.Context(), jobs.OpForceRun, j); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.work(item.Fail, "no answer")
	s.settle()
	s.equal("ledger", s.ledger(j), "12:00 ran, 13:00 outside_window, 13:10 ran forced")
	var forced bool
	err := s.pool.QueryRow(t.Context(), "SELECT forced FROM millrace.executions ORDER BY id DESC LIMIT 1").Scan(&forced)
	if err != nil || !forced {
		t.Errorf("the run is forced: %v, %v", forced, err)
	}
}

// TestRunning: a job is running when a worker has a run, and its health is unknown until a run
// has ended.
func TestRunning(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 60)
	shown := func(what, want string) {
		t.Helper()
		s.settle()
		d, err := s.jobs().Get(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		s.equal(what, fmt.Sprintf("%s, %d queued, %d running, %s", d.Status, d.QueuedCount, d.RunningCount,
			d.Health.Status), want)
		stats, err := s.jobs().Stats(t.Context())
		if err != nil || stats.Runs.Queued != int64(d.QueuedCount) || stats.Runs.Running != int64(d.RunningCount) ||
			stats.ByStatus[d.Status] != 1 || (stats.Runs.OldestAge != nil) != (d.QueuedCount > 0) {
			t.Errorf("%s: %+v, %v", what, stats, err)
		}
		for _, health := range []string{job.Healthy, job.Warning, job.Failed, job.Unknown} {
			n, err := s.jobs().Count(t.Context(), jobs.Filter{Health: health})
			if want := map[bool]int64{true: 1}[health == d.Health.Status]; err != nil || n != want {
				t.Errorf("%s: %d jobs are %s, %v", what, n, health, err)
			}
		}
	}
	shown("due", "pending, 1 queued, 0 running, unknown")
	s.work(item.Start, "")
	shown("taken", "running, 0 queued, 1 running, unknown")
	s.work(item.Release, "")
	shown("given back", "pending, 1 queued, 0 running, unknown")
	s.work(item.Start, "")
	s.work(item.Complete, "{}")
	shown("done", "pending, 0 queued, 0 running, healthy")
	s.exec("UPDATE millrace.executions SET completed_at = completed_at - interval '2 days'")
	shown("long ago", "pending, 0 queued, 0 running, healthy")
}

// TestWarnsOfWaiting: runs that no worker takes are worth a warning.
func TestWarnsOfWaiting(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	s.job(0, 60)
	s.settle()
	s.exec("UPDATE millrace.ready SET since = now() - interval '4 minutes'")
	if stats, err := s.jobs().Stats(t.Context()); err != nil || stats.Runs.Warning != "" || *stats.Runs.OldestAge != 240 {
		t.Errorf("%+v, %v", stats.Runs, err)
	}
	s.exec("UPDATE millrace.ready SET since = now() - interval '6 minutes'")
	stats, err := s.jobs().Stats(t.Context())
	const want = "no worker has taken the oldest run in the queue crawl for 6m0s: start workers, or see whether the " +
		"queue is paused"
	if err != nil || stats.Runs.Warning != want {
		t.Errorf("%+v, %v", stats.Runs, err)
	}
}

// TestAttempts: a run has as many attempts as its job says, each later than the one before, and
// counts once.
func TestAttempts(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 60, "max_attempts = 3, retry_delay_seconds = 60")
	s.exec("UPDATE millrace.job_settings SET backoff_base_minutes = 5, backoff_max_minutes = 7")
	attempt := func(want string) {
		t.Helper()
		var got string
		err := s.pool.QueryRow(t.Context(), "SELECT format('%s %s: %s', attempt, status, error) FROM millrace.executions").
			Scan(&got)
		if err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		s.exec(`WITH d AS (DELETE FROM millrace.delayed RETURNING *)
			INSERT INTO millrace.ready (item_id, generation, stage, priority)
			SELECT d.item_id, d.generation, d.stage, i.priority FROM d JOIN millrace.item AS i ON i.id = d.item_id`)
	}
	s.fail("first")
	s.settle()
	s.equal("tried once", s.state(j), "pending, 1 under way, 0 failures, runs: queued")
	var wait time.Duration
	if err := s.pool.QueryRow(t.Context(), "SELECT due_at - (SELECT updated_at FROM millrace.item) FROM millrace.delayed").
		Scan(&wait); err != nil || wait.Round(10*time.Second) != time.Minute {
		t.Errorf("it waits for %s, %v", wait, err)
	}
	attempt("2 queued: first")
	s.clock(time.Minute)
	s.fail("second")
	s.settle()
	attempt("3 queued: second")
	s.clock(2 * time.Minute)
	s.fail("third")
	s.settle()
	s.equal("tried thrice", s.state(j), "pending, 0 under way, 1 failures, runs: failed")
	attempt("3 failed: third")
	d, err := s.jobs().Get(t.Context(), j)
	if err != nil || d.BackoffUntil.Sub(*d.LastFailureAt) != 7*time.Minute {
		t.Errorf("it rests from %s until %s, %v", d.LastFailureAt, d.BackoffUntil, err)
	}
	if r := s.audit(); !r.Sound() || r.Outcomes["ran"] != 1 {
		t.Errorf("%+v", r)
	}
}

// TestResultsOfWrongType: a member of a result that has the wrong type is named in the run.
func TestResultsOfWrongType(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	s.job(0, 60)
	s.settle()
	s.work(item.Start, "")
	s.work(item.Complete, `{"articles_count":"47","duration_seconds":3}`)
	s.settle()
	var got string
	err := s.pool.QueryRow(t.Context(), `SELECT format('%s, %s articles, %s s: %s', status, articles_count,
		duration_seconds, error) FROM millrace.executions`).Scan(&got)
	const want = "success, 0 articles, 3 s: the run succeeded, and a part of its result counts for nothing: " +
		`articles_count must be a whole number from 0 to 2147483647, and is "47"`
	if err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestRecent: of what was due while no scheduler was there, the last runs, oldest first, one
// after the other.
func TestRecent(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 60)
	if _, err := s.jobs().Set(t.Context(), j, job.ReadDraft([]byte(`{"catch_up_policy":"recent","catch_up_cap":2}`))); err != nil {
		t.Fatal(err)
	}
	s.clock(4*time.Hour + 30*time.Minute)
	for range 3 {
		s.settle()
		s.work(item.Start, "")
		s.work(item.Complete, "{}")
		s.exec("UPDATE millrace.job_status SET wait_until = NULL")
	}
	s.settle()
	s.equal("ledger", s.ledger(j), "12:00 expired, 13:00 expired, 14:00 expired, 15:00 caught_up, 16:00 caught_up")
	if r := s.audit(); !r.Sound() {
		t.Errorf("%+v", r)
	}
}

package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/ingest/scheduler"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/ledger"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/job"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// site is a database whose clock a test sets, and how schedulers use it.
type site struct {
	*testing.T
	pool *pgxpool.Pool
	one  *scheduler.Scheduler
	q    *userqueue.Store
	id   queue.ID
	noon time.Time // when the clock begins
}

// fakeClock has now() of the statements, but not of the functions of the schema, be what
// a test says.
const fakeClock = `CREATE SCHEMA fake;
	CREATE TABLE fake.clock AS SELECT timestamptz '2026-11-23 12:00Z' AS at;
	CREATE FUNCTION fake.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT at FROM fake.clock'`

func start(t *testing.T, cfg scheduler.Config) *site {
	t.Helper()
	pool := engine.Pool(t, queue.Configure, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "fake, pg_catalog, public"
		c.MaxConns = 12
	})
	if _, err := pool.Exec(t.Context(), fakeClock); err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, pool: pool, noon: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	s.one, s.q = s.scheduler(cfg)
	if err := s.one.MakeQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	crawl, err := s.q.Get(t.Context(), scheduler.Queue)
	if err != nil {
		t.Fatal(err)
	}
	s.id = crawl.ID
	return s
}

func (s *site) scheduler(cfg scheduler.Config) (*scheduler.Scheduler, *userqueue.Store) {
	s.Helper()
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{tracking.Kind{}, &userqueue.Kind{}}}, s.pool,
		embeddedtest.Log(s))
	if err != nil {
		s.Fatal(err)
	}
	scheduler.Notice(queues)
	own, err := userqueue.New(queues)
	if err != nil {
		s.Fatal(err)
	}
	one, err := scheduler.New(cfg, scheduler.Deps{
		Queues: own, Registry: prometheus.NewRegistry(),
		Log: embeddedtest.Log(s),
	})
	if err != nil {
		s.Fatal(err)
	}
	return one, own
}

func (s *site) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(context.WithoutCancel(s.Context()), sql, args...); err != nil {
		s.Fatal(err)
	}
}

// clock sets the clock to some time after noon.
func (s *site) clock(after time.Duration) { s.exec("UPDATE fake.clock SET at = $1", s.noon.Add(after)) }

// ofStatus are columns of job_status.
var ofStatus = regexp.MustCompile("^(status|forced_at|backoff_until|resting_due_at|skip_next|priority) ")

// job makes a job that is due at some time after noon, and so often from there.
func (s *site) job(first time.Duration, minutes int, settings ...string) uuid.UUID {
	s.Helper()
	id, due := uuid.Must(uuid.NewV7()), s.noon.Add(first)
	s.exec(`INSERT INTO millrace.job_settings (id, source_id, source_name, url, rate_limit, max_depth, selectors,
			auto_managed, origin, schedule_kind, interval_minutes, interval_type, max_concurrent)
		VALUES ($1, $2, 'news', 'https://example.com', 10, 1, '{}', true, 'event', 'interval', $3, 'minutes', 1)`,
		id, uuid.New(), minutes)
	s.exec("INSERT INTO millrace.job_status (id, status, next_run_at, priority) VALUES ($1, 'pending', $2, 50)", id, due)
	s.exec(`INSERT INTO millrace.job_schedule (job_id, version, from_at, paused, kind, anchor_at,
		interval_minutes, time_zone, reason)
		VALUES ($1, 1, $2, false, 'interval', $3, $4, 'UTC', 'created')`, id, s.noon.Add(-time.Hour), due, minutes)
	for _, set := range settings {
		table := "job_settings"
		if ofStatus.MatchString(set) {
			table = "job_status"
		}
		s.exec("UPDATE millrace."+table+" SET "+set+" WHERE id = $1", id)
	}
	return id
}

// settle has a scheduler do all that there is to do.
func (s *site) settle() {
	s.Helper()
	for _, do := range []func(context.Context) (bool, error){s.one.Stop, s.one.Follow, s.one.Dispatch} {
		for more := true; more; {
			var err error
			if more, err = do(s.Context()); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// ledger shows what became of a job's due times, by the time of day.
func (s *site) ledger(job uuid.UUID) string {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), `SELECT to_char(due_at AT TIME ZONE 'UTC', 'HH24:MI ') || outcome ||
		CASE WHEN forced THEN ' forced' ELSE '' END FROM millrace.job_ledger WHERE job_id = $1 ORDER BY due_at`, job)
	if err != nil {
		s.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatal(err)
	}
	return strings.Join(all, ", ")
}

// state shows a job and its runs.
func (s *site) state(job uuid.UUID) (text string) {
	s.Helper()
	err := s.pool.QueryRow(s.Context(), `SELECT format('%s, %s under way, %s failures, runs:', j.status,
		j.running, j.failure_count) ||
		coalesce((SELECT string_agg(' ' || e.status,
			'' ORDER BY e.id) FROM millrace.executions AS e WHERE e.job_id = j.id), '')
		FROM millrace.jobs AS j WHERE j.id = $1`, job).Scan(&text)
	if err != nil {
		s.Fatal(err)
	}
	return text
}

// work starts all items that can be, or ends those that are started, with a result.
func (s *site) work(move item.Move, result string) (n int) {
	s.Helper()
	status := "started"
	if move == item.Start {
		status = "new"
	}
	rows, err := s.pool.Query(s.Context(),
		"SELECT id FROM millrace.item WHERE stage = $1 AND status = $2::millrace.stage_status ORDER BY id",
		s.id, status)
	if err != nil {
		s.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(ids) == 0 {
		return 0
	}
	commands := make([]queue.Command, len(ids))
	for i, id := range ids {
		commands[i] = queue.Command{ID: id, Worker: "w", Result: []byte(result), Lease: time.Minute}
		if move == item.Fail {
			commands[i].Error, commands[i].Result = result, nil
		}
	}
	results, err := s.q.Queues().Apply(s.Context(), s.id, move, commands)
	if err != nil {
		s.Fatal(err)
	}
	for _, r := range results {
		if r.Outcome == item.Changed {
			n++
		}
	}
	return n
}

func (s *site) audit() *ledger.JobAudit {
	s.Helper()
	r, err := ledger.Audit(context.WithoutCancel(s.Context()), s.pool, s.noon.Add(-time.Hour),
		s.noon.Add(1000*time.Hour))
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *site) equal(what, got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("%s: %s, want %s", what, got, want)
	}
}

// TestRun (1, 3) follows a job from its due time to the end of its run.
func TestRun(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(time.Minute, 60)
	s.settle()
	s.equal("before", s.ledger(j), "")
	s.clock(time.Minute)
	s.settle()
	s.equal("due", s.ledger(j), "12:01 ran")
	s.equal("due", s.state(j), "pending, 1 under way, 0 failures, runs: queued")
	var key, group, payload string
	err := s.pool.QueryRow(t.Context(), `SELECT key, "group", payload::text FROM millrace.item`).Scan(&key,
		&group, &payload)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(payload), &body); err != nil {
		t.Fatal(err)
	}
	if body["job_id"] != j.String() || body["source_id"] != group || body["due_at"] != "2026-11-23T12:01:00Z" ||
		body["url"] != "https://example.com" || fmt.Sprint(body["selectors"]) != "map[]" || len(body) != 8 ||
		!strings.HasPrefix(key, scheduler.KeyPrefix) {
		t.Errorf("the item %s: %s", key, payload)
	}
	s.work(item.Start, "")
	s.settle()
	s.equal("started", s.state(j), "running, 1 under way, 0 failures, runs: running")
	s.work(item.Complete, `{"articles_count": 47, "duration_seconds": 12.5}`)
	s.settle()
	s.equal("done", s.state(j), "pending, 0 under way, 0 failures, runs: success")
	var articles int
	var duration float64
	if err := s.pool.QueryRow(t.Context(), "SELECT articles_count, duration_seconds FROM millrace.executions").
		Scan(&articles, &duration); err != nil || articles != 47 || duration != 12.5 {
		t.Error(articles, duration, err)
	}
}

// TestFailures (3): failures count, once each, and the job rests; so does a run whose
// worker has died.
func TestFailures(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 10, "overlap_policy = 'skip'")
	s.settle()
	s.work(item.Start, "")
	s.work(item.Fail, "no answer")
	s.settle()
	s.equal("failed", s.state(j), "pending, 0 under way, 1 failures, runs: failed")
	var until time.Time
	if err := s.pool.QueryRow(t.Context(), "SELECT backoff_until FROM millrace.jobs").Scan(&until); err != nil ||
		!until.Equal(s.noon.Add(20*time.Minute)) {
		t.Errorf("it rests until %s, %v", until, err)
	}
	s.clock(19 * time.Minute)
	s.settle()
	s.equal("resting", s.ledger(j), "12:00 ran, 12:10 backoff")
	s.clock(20 * time.Minute)
	s.settle()
	s.equal("rested", s.ledger(j), "12:00 ran, 12:10 backoff, 12:20 ran")

	s.work(item.Start, "")
	s.clock(30 * time.Minute) // the lease of a minute is over
	ctx, stop := context.WithCancel(t.Context())
	swept := make(chan error, 1)
	go func() { swept <- s.q.Queues().Run(ctx) }()
	s.until("2 failures")
	stop()
	if err := <-swept; err != nil {
		t.Error(err)
	}
	s.equal("twice", s.state(j), "pending, 0 under way, 2 failures, runs: failed failed")
}

// TestTriedAgain (3): an item of a run that is retried is the run's next
// attempt, and under way for its job, however late that is followed.
func TestTriedAgain(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 10, "overlap_policy = 'skip'")
	minute := 0
	pass := func() { minute++; s.clock(time.Duration(minute) * time.Minute) }
	retry := func() {
		t.Helper()
		pass()
		var id int64
		if err := s.pool.QueryRow(t.Context(), "SELECT item_id FROM millrace.executions ORDER BY id LIMIT 1").
			Scan(&id); err != nil {
			t.Fatal(err)
		}
		if r, err := s.q.Retry(t.Context(), s.id, []int64{id}); err != nil || r[0].Outcome != item.Changed {
			t.Fatal(r, err)
		}
		pass()
	}
	attempt := func(want int) {
		t.Helper()
		var got int
		if err := s.pool.QueryRow(t.Context(), "SELECT attempt FROM millrace.executions ORDER BY id LIMIT 1").
			Scan(&got); err != nil || got != want {
			t.Errorf("attempt %d, %v, want %d", got, err, want)
		}
	}
	s.settle()
	s.work(item.Start, "")
	s.work(item.Fail, "no answer")
	s.settle()
	s.equal("failed", s.state(j), "pending, 0 under way, 1 failures, runs: failed")

	retry()
	s.settle()
	s.equal("tried again", s.state(j), "pending, 1 under way, 1 failures, runs: queued")
	attempt(2)
	s.work(item.Start, "")
	pass()
	s.work(item.Fail, "no answer")
	s.settle()
	s.equal("failed again", s.state(j), "pending, 0 under way, 2 failures, runs: failed")

	retry()
	s.work(item.Start, "")
	pass()
	s.work(item.Complete, `{"articles_count": 7}`)
	s.settle() // all at once
	s.equal("done", s.state(j), "pending, 0 under way, 0 failures, runs: success")
	attempt(3)
	s.settle()
	attempt(3)
	if r := s.audit(); r.Missed+r.Doubled > 0 {
		t.Errorf("%+v", r)
	}
}

// TestFollowBehind: a full batch of changes says that there may be more, also when many of
// them are of one item.
func TestFollowBehind(t *testing.T) {
	const followedAtOnce = 1000
	s := start(t, scheduler.Config{})
	s.exec(`INSERT INTO millrace.run_change (item_id, status)
		SELECT n / 3, 'done' FROM generate_series(1, $1::integer) AS n`,
		followedAtOnce+1)
	for _, want := range []bool{true, false} {
		if more, err := s.one.Follow(t.Context()); more != want || err != nil {
			t.Errorf("%v, %v, want %v", more, err, want)
		}
	}
}

// until waits until the only job shows a text.
func (s *site) until(text string) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := s.one.Follow(s.Context()); err != nil {
			s.Fatal(err)
		}
		var id uuid.UUID
		if err := s.pool.QueryRow(s.Context(), "SELECT id FROM millrace.jobs").Scan(&id); err != nil {
			s.Fatal(err)
		}
		if strings.Contains(s.state(id), text) {
			return
		}
		if time.Now().After(end) {
			s.Fatal(s.state(id))
		}
	}
}

// TestOverlaps: what becomes of a due time while a run goes, by the job's policy.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]struct{ ledger, state, after string }{
		"skip": {
			"12:00 ran, 12:01 skipped, 12:02 skipped", "running, 1 under way, 0 failures, runs: running",
			"pending, 0 under way, 0 failures, runs: success",
		},
		"allow": {
			"12:00 ran, 12:01 ran, 12:02 ran", "running, 3 under way, 0 failures, runs: running queued queued",
			"pending, 2 under way, 0 failures, runs: success queued queued",
		},
		"cancel_other": {
			"12:00 ran, 12:01 ran, 12:02 ran", "pending, 1 under way, 0 failures, runs: cancelled cancelled queued",
			"pending, 1 under way, 0 failures, runs: cancelled cancelled queued",
		},
		"buffer_one": {
			"12:00 ran, 12:01 buffered, 12:02 coalesced", "running, 1 under way, 0 failures, runs: running",
			"pending, 1 under way, 0 failures, runs: success queued",
		},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s := start(t, scheduler.Config{})
			j := s.job(0, 1, fmt.Sprintf("overlap_policy = '%s'", policy))
			s.settle()
			s.work(item.Start, "")
			s.settle()
			for minute := range time.Duration(2) {
				s.clock((minute + 1) * time.Minute)
				s.settle()
			}
			s.settle()
			s.equal("ledger", s.ledger(j), want.ledger)
			s.equal("state", s.state(j), want.state)
			s.work(item.Complete, "{}")
			s.settle()
			s.equal("after", s.state(j), want.after)
			if r := s.audit(); !r.Sound() {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestForced: a forced run ignores backoff and crawl windows, and waits
// for room.
func TestForced(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	force := func(j uuid.UUID) { s.exec("UPDATE millrace.job_status SET forced_at = now() WHERE id = $1", j) }
	resting := s.job(time.Hour, 60, "backoff_until = now() + interval '1 day'",
		"crawl_window_start = 1, crawl_window_end = 2")
	force(resting)
	s.settle()
	s.equal("ledger", s.ledger(resting), "12:00 ran forced")
	s.equal("state", s.state(resting), "pending, 1 under way, 0 failures, runs: queued")

	busy := s.job(-30*time.Second, 60)
	s.settle()
	force(busy)
	s.settle()
	s.equal("it waits", s.ledger(busy), "11:59 ran, 12:00 buffered forced")
	s.work(item.Start, "")
	s.work(item.Complete, "{}")
	s.settle()
	s.settle()
	s.equal("it runs", s.ledger(busy), "11:59 ran, 12:00 ran forced")
	s.equal("it runs", s.state(busy), "pending, 1 under way, 0 failures, runs: success queued")
	if r := s.audit(); !r.Sound() || r.Forced != 2 {
		t.Errorf("%+v", r)
	}
}

// TestOneAtOnce: what is due when a run begins that somebody has asked for, or that has
// waited, is beside that run.
func TestOneAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 60, "overlap_policy = 'cancel_other'", "forced_at = now() - interval '90 seconds'")
	s.settle()
	s.settle()
	s.equal("ledger", s.ledger(j), "11:58 ran forced, 12:00 ran")
	s.equal("state", s.state(j), "pending, 1 under way, 0 failures, runs: cancelled queued")
}

// TestHolds: a paused job, a changed one, one outside its window, and one of which the
// next run is to be skipped.
func TestHolds(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	window := s.job(0, 60, "crawl_window_start = 22, crawl_window_end = 6")
	skipped := s.job(0, 60, "skip_next = true")
	paused := s.job(0, 60, "status = 'paused', paused_by = 'user'")
	changed := s.job(0, 60)
	swap := func(j uuid.UUID, at time.Duration, pause bool) {
		when := s.noon.Add(at)
		s.exec("UPDATE millrace.job_schedule SET to_at = $2 WHERE job_id = $1", j, when)
		s.exec(`INSERT INTO millrace.job_schedule (job_id, version, from_at, paused, kind, anchor_at,
			interval_minutes, time_zone, reason)
			VALUES ($1, 2, $2, $3, 'interval', $4, 20, 'UTC', 'test')`, j, when, pause, when.Add(5*time.Minute))
	}
	swap(paused, -time.Minute, true)
	s.clock(90 * time.Minute)
	swap(changed, 70*time.Minute, false)
	s.settle()
	s.equal("window", s.ledger(window), "12:00 outside_window, 13:00 outside_window")
	s.equal("skipped", s.ledger(skipped), "12:00 skipped, 13:00 caught_up")
	s.equal("paused", s.ledger(paused), "12:04 paused, 12:24 paused, 12:44 paused, 13:04 paused, 13:24 paused")
	s.equal("changed", s.ledger(changed), "12:00 expired, 13:00 expired, 13:15 caught_up")
	if r := s.audit(); !r.Sound() || r.Pending != 0 || r.Due != 12 {
		t.Errorf("%+v", r)
	}
}

// TestNoJobStopsOthers (5).
func TestNoJobStopsOthers(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	broken := s.job(0, 60, "crawl_window_zone = 'Mars/Olympus'", "priority = 100",
		"backoff_until = now()", "resting_due_at = now() - interval '1 hour'")
	large := s.job(0, 60, "selectors = ('\"' || repeat('x', 65536) || '\"')::json", "priority = 90")
	fine := s.job(0, 60)
	s.settle()
	s.equal("broken", s.ledger(broken), "")
	var waits bool
	err := s.pool.QueryRow(t.Context(), "SELECT due_at > now() FROM millrace.jobs WHERE id = $1", broken).Scan(&waits)
	if err != nil || !waits {
		t.Errorf("the broken job waits: %v, %v", waits, err)
	}
	s.equal("large", s.state(large), "pending, 0 under way, 1 failures, runs: failed")
	s.equal("fine", s.ledger(fine), "12:00 ran")
}

// TestDowntime (4): two weeks without a scheduler, of a job of every minute, are
// decided in pages, begin one run, and each due time has one row.
func TestDowntime(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{Page: 5000})
	j := s.job(0, 1)
	s.clock(14 * 24 * time.Hour)
	s.settle()
	s.equal("state", s.state(j), "pending, 1 under way, 0 failures, runs: queued")
	const minutes = 14 * 24 * 60
	if r := s.audit(); !r.Sound() || r.Due != minutes+1 || r.Outcomes["ran"] != 1 ||
		r.Outcomes["coalesced"] != minutes {
		t.Errorf("%+v", r)
	}
}

// TestClockSetBack (2): what was decided stays, and nothing runs again.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 1, "overlap_policy = 'allow'")
	for _, minute := range []time.Duration{0, 1, 2, 0, 1, 2, 3} {
		s.clock(minute * time.Minute)
		s.settle()
	}
	s.equal("ledger", s.ledger(j), "12:00 ran, 12:01 ran, 12:02 ran, 12:03 ran")
	if r := s.audit(); !r.Sound() {
		t.Errorf("%+v", r)
	}
}

// TestChangedWhenSetBack (2): what was decided stays, and nothing is due that was
// decided, whatever becomes of the schedule while the clock is set back.
func TestChangedWhenSetBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(s *site, j uuid.UUID) error
		want   string
	}{
		"another expression": {func(s *site, j uuid.UUID) error {
			_, err := s.jobs().Set(s.Context(), j, job.ReadDraft([]byte(`{"cron":"*/2 * * * *"}`)))
			return err
		}, "12:00 ran, 12:01 ran, 12:02 ran, 12:03 ran, 12:04 ran"},
		"an interval": {func(s *site, j uuid.UUID) error {
			_, err := s.jobs().Set(s.Context(), j, job.ReadDraft([]byte(`{"interval_minutes":1}`)))
			return err
		}, "12:00 ran, 12:01 ran, 12:02 ran, 12:03 ran, 12:03 ran"},
		"its end": {func(s *site, j uuid.UUID) error {
			s.exec("UPDATE millrace.job_schedule SET to_at = $1 WHERE to_at IS NULL", s.noon.Add(3*time.Minute+1000))
			s.exec("DELETE FROM millrace.job_settings")
			return nil
		}, "12:00 ran, 12:01 ran, 12:02 ran, 12:03 ran"},
		"a pause": {func(s *site, j uuid.UUID) error {
			_, err := s.jobs().Do(s.Context(), jobs.OpPause, j)
			return err
		}, "12:00 ran, 12:01 ran, 12:02 ran, 12:03 ran, 12:04 paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, scheduler.Config{})
			j := s.job(0, 1, "overlap_policy = 'allow'")
			if _, err := s.jobs().Set(t.Context(), j,
				job.ReadDraft([]byte(`{"cron":"* * * * *","overlap_policy":"allow"}`))); err != nil {
				t.Fatal(err)
			}
			for minute := range time.Duration(4) {
				s.clock(minute * time.Minute)
				s.settle()
			}
			s.clock(30 * time.Second)
			if err := tc.change(s, j); err != nil {
				t.Fatal(err)
			}
			if r := s.audit(); !r.Sound() {
				t.Errorf("as soon as it has changed: %+v", r)
			}
			for minute := range time.Duration(4) {
				s.clock((minute + 1) * time.Minute)
				s.settle()
			}
			s.equal("ledger", s.ledger(j), tc.want)
			if r := s.audit(); !r.Sound() {
				t.Errorf("%+v", r)
			}
		})
	}
}

// jobs are the commands on jobs by the clock of the test.
func (s *site) jobs() *jobs.Store {
	s.Helper()
	store, err := jobs.New(jobs.Config{}, s.pool)
	if err != nil {
		s.Fatal(err)
	}
	return store
}

// TestAudit holds that the audit finds what is wrong.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	s.job(0, 1, "overlap_policy = 'allow'")
	for minute := range time.Duration(10) {
		s.clock(minute * time.Minute)
		s.settle()
	}
	if r := s.audit(); !r.Sound() || r.Jobs != 1 || r.Outcomes["ran"] != 10 {
		t.Errorf("%+v", r)
	}
	at := func(minute time.Duration) time.Time { return s.noon.Add(minute * time.Minute) }
	s.exec("DELETE FROM millrace.job_ledger WHERE due_at = $1", at(2))
	s.exec("DELETE FROM millrace.executions WHERE due_at = $1", at(2))
	s.exec("DELETE FROM millrace.job_ledger WHERE due_at = $1", at(3))
	s.exec("DELETE FROM millrace.executions WHERE due_at = $1", at(4))
	s.exec(`INSERT INTO millrace.executions SELECT gen_random_uuid(), job_id, source_id, due_at, false, 1,
		'queued', NULL
		FROM millrace.executions WHERE due_at = $1`, at(6))
	s.exec("UPDATE millrace.executions SET due_at = due_at + interval '10 seconds' WHERE due_at = $1", at(8))
	s.exec("UPDATE millrace.job_ledger SET due_at = due_at + interval '10 seconds' WHERE due_at = $1", at(8))
	r := s.audit()
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.DueAt.Format("15:04:05 ")+f.Kind)
	}
	want := "12:02:00 missed, 12:03:00 doubled, 12:04:00 missed, 12:06:00 doubled, 12:08:00 missed, 12:08:10 doubled"
	if s.equal("found", strings.Join(got, ", "), want); r.Missed != 3 || r.Doubled != 3 || r.Sound() {
		t.Errorf("%+v", r)
	}
}

// TestKilled (1, 2, 3, 6): three schedulers share the work while their connections are
// killed, the clock jumps, workers end runs in all ways, and jobs are paused and resumed.
// Nothing is missed or doubled, no run ends twice, no job has two at a time, and no run of a
// paused job is left in the queue.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{Batch: 7, Page: 20, Every: time.Millisecond})
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 3))
	ids := make([]uuid.UUID, 40)
	for i := range ids {
		policy := []string{"skip", "buffer_one", "cancel_other"}[i%3]
		ids[i] = s.job(time.Duration(random.IntN(600))*time.Second, 1+random.IntN(9),
			fmt.Sprintf("overlap_policy = '%s', catch_up_policy = '%s'", policy, []string{
				"none", "one",
				"recent", "all",
			}[i%4]))
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		one, _ := s.scheduler(scheduler.Config{Batch: 7, Page: 20, Every: time.Millisecond})
		all.Go(func() {
			if err := one.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	now := time.Duration(0)
	for range 40 {
		now += time.Duration(random.IntN(300)) * time.Second
		if random.IntN(10) == 0 {
			now -= 10 * time.Minute
		}
		s.again(func() error { return s.clockTo(now) })
		s.again(func() error {
			_, err := s.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE pid <> pg_backend_pid() AND datname = current_database()
					AND backend_type = 'client backend' AND random() < 0.3`)
			return err
		})
		s.tryWork(random)
		s.again(func() error {
			_, err := s.jobs().Bulk(t.Context(), []string{jobs.OpPause, jobs.OpResume}[random.IntN(2)], nil,
				jobs.Many{IDs: ids[random.IntN(20):][:20]})
			return err
		})
		s.again(func() (err error) {
			var due bool
			err = s.pool.QueryRow(t.Context(),
				"SELECT EXISTS (SELECT FROM millrace.jobs WHERE due_at <= now())").Scan(&due)
			if err == nil && due {
				err = errors.New("jobs are due")
			}
			return err
		})
	}
	now += 2 * time.Hour
	s.again(func() error { return s.clockTo(now) })
	stop()
	all.Wait()
	s.pool.Reset() // of connections that were killed
	for range 5 {  // runs that are caught up wait for each other
		s.settle()
		s.work(item.Start, "")
		s.work(item.Complete, "{}")
		s.settle()
	}
	var left int
	if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM millrace.executions AS e
		JOIN millrace.jobs AS j ON j.id = e.job_id WHERE e.status = 'queued' AND j.status = 'paused') +
		(SELECT count(*) FROM millrace.job_stop)`).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d runs of paused jobs are queued, or stops are left: %v", left, err)
	}
	r := s.audit()
	if !r.Sound() || r.Due < 1000 || r.Outcomes["ran"]+r.Outcomes["caught_up"] < 10 {
		t.Errorf("%+v", r)
	}
	var wrong int
	err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM millrace.jobs AS j WHERE (j.running, j.active) <> (
		SELECT count(*), count(*) FILTER (WHERE status = 'running') FROM millrace.executions AS e
		WHERE e.job_id = j.id AND e.status IN ('queued', 'running'))`).Scan(&wrong)
	if err != nil || wrong > 0 {
		t.Errorf("%d jobs count their runs wrongly, %v", wrong, err)
	}
	err = s.pool.QueryRow(t.Context(),
		`SELECT count(*) FROM millrace.executions AS e FULL JOIN millrace.item AS i ON i.id = e.item_id
		WHERE e.id IS NULL OR i.id IS NULL OR (e.status IN ('queued', 'running')) <> (i.status IN ('new',
			'started'))`).Scan(&wrong)
	if err != nil || wrong > 0 {
		t.Errorf("%d runs differ from their items, %v", wrong, err)
	}
}

func (s *site) clockTo(after time.Duration) error {
	_, err := s.pool.Exec(s.Context(), "UPDATE fake.clock SET at = $1", s.noon.Add(after))
	return err
}

// again does something until it is done, whatever connections are killed.
func (s *site) again(do func() error) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatal(err)
		}
	}
}

// tryWork moves some items, as workers whose connections may be killed do.
func (s *site) tryWork(random *rand.Rand) {
	rows, err := s.pool.Query(s.Context(), "SELECT id FROM millrace.item WHERE status IN ('new', 'started')")
	if err != nil {
		return
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return
	}
	for _, id := range ids {
		move := []item.Move{item.Start, item.Complete, item.Complete, item.Complete, item.Release}[random.IntN(5)]
		if random.IntN(20) == 0 {
			move = item.Fail
		}
		_, _ = s.q.Queues().Apply(s.Context(), s.id, move, []queue.Command{{ID: id, Worker: "w"}}) // it may be killed
	}
}

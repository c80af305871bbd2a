package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// ofSource selects the row of job_status of the job of a source.
const ofSource = " WHERE id = (SELECT id FROM millrace.job_settings WHERE source_id = $1)"

// site is a store on a database of its own.
type site struct {
	*testing.T
	*Store
	seq int64
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	return &site{T: t, Store: newStore(t, Config{})}
}

// counted makes sure that the numbers of jobs are those of a recount.
func counted(t *testing.T, s *Store) {
	t.Helper()
	n, err := s.Numbers(context.Background())
	if err != nil {
		t.Error(err)
		return
	}
	rows, err := s.pool.Query(context.Background(),
		"SELECT status, priority, count(*), sum(running) FROM millrace.jobs GROUP BY 1, 2")
	if err != nil {
		t.Error(err)
		return
	}
	var status string
	var priority int
	var jobs, running int64
	_, err = pgx.ForEachRow(rows, []any{&status, &priority, &jobs, &running}, func() error {
		n.ByStatus[status] -= jobs
		n.ByPriority[priority] -= jobs
		n.Queued -= running
		return nil
	})
	for status, wrong := range n.ByStatus {
		if wrong != 0 {
			t.Errorf("%d jobs too many are counted as %s", wrong, status)
		}
	}
	for priority, wrong := range n.ByPriority {
		if wrong != 0 {
			t.Errorf("%d jobs too many are counted with priority %d", wrong, priority)
		}
	}
	if wrong := n.Queued + n.Active; err != nil || wrong != 0 {
		t.Errorf("%d runs too many are counted: %v", wrong, err)
	}
}

// hand hands in events, each of which has to become of what is said.
func (s *site) hand(want Outcome, events ...Event) {
	s.Helper()
	outcomes, _, err := s.Handle(s.T.Context(), events, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i, outcome := range outcomes {
		if outcome != want {
			s.Errorf("%s@%d is %s, want %s", events[i].Type, events[i].Seq, outcome, want)
		}
	}
}

func (s *site) event(kind string, id uuid.UUID, payload any) Event {
	s.seq++
	return said(kind, id, s.seq, payload)
}

var example = source.Fields{
	Name: "Example News", URL: "https://example.com", RateLimit: 10, MaxDepth: 1, Enabled: true,
	Selectors: json.RawMessage(`{"title":"h1"}`), Priority: "normal",
}

// created is a source that events have told of, with its job.
func (s *site) created() (uuid.UUID, job.Job) {
	s.Helper()
	id := uuid.New()
	s.hand(Applied, s.event(source.Created, id, example))
	return id, s.job(id)
}

func (s *site) job(ofSource uuid.UUID) job.Job {
	s.Helper()
	d, err := s.OfSource(s.T.Context(), ofSource)
	if err != nil {
		s.Fatal(err)
	}
	return d.Job
}

func (s *site) none(ofSource uuid.UUID) {
	s.Helper()
	if d, err := s.OfSource(s.T.Context(), ofSource); !errors.Is(err, ErrNotFound) {
		s.Errorf("there is the job %+v, %v", d, err)
	}
}

func (s *site) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(s.T.Context(), sql, args...); err != nil {
		s.Fatal(err)
	}
}

// insert puts a source into the table without an event.
func (s *site) insert(id uuid.UUID, f source.Fields) {
	s.Helper()
	s.exec(`INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled, selectors, priority)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, id, f.Name, f.URL, f.RateLimit, f.MaxDepth, f.Enabled, f.Selectors, f.Priority)
}

// TestLife goes the way of a job with its source.
func TestLife(t *testing.T) {
	s := newSite(t)
	id, j := s.created()
	if delay := j.NextRunAt.Sub(j.CreatedAt); j.Status != job.Pending || !j.AutoManaged || j.IntervalMinutes != 60 ||
		j.IntervalType != "hours" || j.Priority != 50 || j.MaxConcurrent != 1 || delay != 5*time.Minute {
		t.Errorf("made as %+v", j)
	}
	s.hand(Applied, s.event(source.Updated, id, source.Update{
		ChangedFields: []string{"priority", "rate_limit"},
		Current:       map[string]any{"priority": "critical", "rate_limit": 5},
	}))
	j = s.job(id)
	if j.IntervalMinutes != 22 || j.Priority != 100 || j.MaxConcurrent != 3 || j.RateLimit != 5 || j.Version != 2 ||
		j.NextRunAt.Sub(j.UpdatedAt) > 22*time.Minute || j.NextRunAt.Before(j.UpdatedAt) {
		t.Errorf("after the update %+v", j)
	}
	s.hand(Applied, s.event(source.Disabled, id, source.Toggle{}))
	if j = s.job(id); j.Status != job.Paused || j.PausedBy != job.BySource || j.NextRunAt != nil {
		t.Errorf("of a source that is disabled %+v", j)
	}
	s.exec(`UPDATE millrace.job_status SET failure_count = 7, last_failure_at = now(), backoff_until = now() + ` +
		`interval '1 day'`)
	s.hand(Applied, s.event(source.Enabled, id, source.Toggle{}))
	j = s.job(id)
	if j.Status != job.Pending || j.NextRunAt.After(j.UpdatedAt) || j.BackoffUntil != nil || j.FailureCount != 0 {
		t.Errorf("of a source that is enabled again %+v", j)
	}
	s.hand(Applied, s.event(source.Deleted, id, source.Deletion{}))
	s.none(id)
	schedules(t, s.Store)

	disabled := example
	disabled.Enabled = false
	id = uuid.New()
	s.hand(Applied, s.event(source.Created, id, disabled))
	s.none(id)
	s.hand(Applied, s.event(source.Enabled, id, source.Toggle{}))
	if j = s.job(id); j.SourceName != example.Name || j.NextRunAt.Sub(j.CreatedAt) != 5*time.Minute {
		t.Errorf("of a source that was made disabled %+v", j)
	}
	s.log("SOURCE_ENABLED applied enabled: false → true, job created", "SOURCE_CREATED applied nothing changed",
		"SOURCE_DELETED applied job deleted", "SOURCE_ENABLED applied enabled: false → true, job pending",
		"SOURCE_DISABLED applied enabled: true → false, job paused",
		"SOURCE_UPDATED applied rate_limit: 10 → 5, priority: normal → critical", "SOURCE_CREATED applied job created")
}

// log holds what the log of events has, the latest first.
func (s *site) log(want ...string) {
	s.Helper()
	all, err := s.Events(s.T.Context(), Log{}, Place{}, 100)
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%s %s %s", e.EventType, e.Outcome, e.Detail))
	}
	if !slices.Equal(got, want) {
		s.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAgain holds invariants 1 and 3: an event that comes again changes nothing, also
// by another sequence, and also when its id is forgotten.
func TestAgain(t *testing.T) {
	s := newSite(t)
	id := uuid.New()
	creation := s.event(source.Created, id, example)
	toggles := []Event{
		s.event(source.Disabled, id, source.Toggle{}), s.event(source.Enabled, id, source.Toggle{}),
		s.event(source.Disabled, id, source.Toggle{}),
	}
	s.hand(Applied, append([]Event{creation}, toggles...)...)
	s.hand(Duplicate, toggles...)
	repeat := func(e Event, after time.Duration) Event {
		s.seq++
		e.Seq, e.Stored = s.seq, e.Stored.Add(after)
		return e
	}
	s.hand(Duplicate, repeat(creation, time.Hour), repeat(toggles[1], keep-time.Hour))
	forget := func() {
		t.Helper()
		s.exec("UPDATE millrace.processed_events SET processed_at = processed_at - interval '7 days 1 minute'")
		if err := s.Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.log()
	}
	forget()
	s.hand(Stale, repeat(creation, keep), repeat(toggles[0], keep), repeat(toggles[1], keep))
	if j := s.job(id); j.Status != job.Paused {
		t.Errorf("%+v", j)
	}
	s.hand(Applied, s.event(source.Deleted, id, source.Deletion{}))
	forget()
	s.hand(Stale, repeat(creation, 2*keep))
	s.none(id)
}

// TestLateOfOwn holds invariant 3 for sources of the table: what was kept back for a
// week has the source read as it is.
func TestLateOfOwn(t *testing.T) {
	s := newSite(t)
	id := uuid.New()
	s.insert(id, example)
	s.hand(Applied, s.event(source.Created, id, example))
	s.exec("UPDATE millrace.source SET rate_limit = 3, priority = 'high'")
	late := s.event(source.Updated, id, source.Update{
		ChangedFields: []string{"rate_limit"},
		Current:       map[string]any{"rate_limit": 2},
	})
	late.Stored = late.Timestamp.Add(keep)
	s.hand(Applied, late)
	if j := s.job(id); j.RateLimit != 3 || j.Priority != 75 {
		t.Errorf("%+v", j)
	}
}

// TestUnknown holds invariant 4: an event about a source that nothing is known of
// waits, and then is dead, unless the source becomes known.
func TestUnknown(t *testing.T) {
	s := newSite(t)
	id := uuid.New()
	deletion := s.event(source.Deleted, uuid.New(), source.Deletion{})
	update := s.event(source.Updated, id, source.Update{
		ChangedFields: []string{"name"},
		Current:       map[string]any{"name": "b"},
	})
	s.hand(Waiting, update, deletion)
	repeated := update
	repeated.Seq = 98
	s.hand(Duplicate, repeated)
	creation := s.event(source.Created, id, example)
	s.hand(Applied, creation)
	s.hand(Applied, update)
	if j := s.job(id); j.SourceName != "b" {
		t.Errorf("%+v", j)
	}
	s.exec("UPDATE millrace.processed_events SET processed_at = processed_at - interval '9 s' WHERE outcome = " +
		"'waiting'")
	s.hand(Dead, deletion)
	s.hand(Dead, deletion) // after it was killed before the dead letter
	replayed := deletion
	replayed.Seq = 99
	s.hand(Waiting, replayed)
	s.hand(Applied, s.event(source.Created, deletion.SourceID, example))
	s.hand(Applied, replayed)
	s.none(deletion.SourceID)
}

// TestFound: an event about a source that is in the table, of which no event was seen.
func TestFound(t *testing.T) {
	s := newSite(t)
	id := uuid.New()
	s.insert(id, example)
	s.hand(Applied, s.event(source.Updated, id, source.Update{
		ChangedFields: []string{"max_depth"},
		Current:       map[string]any{"max_depth": 4},
	}))
	if j := s.job(id); j.MaxDepth != 4 || j.IntervalMinutes != 75 {
		t.Errorf("%+v", j)
	}
}

// TestManual: with Config.Manual, sources get no jobs, and those there are follow.
func TestManual(t *testing.T) {
	s := newSite(t)
	id, _ := s.created()
	s.cfg.Manual = true
	other := uuid.New()
	s.hand(Applied, s.event(source.Created, other, example), s.event(source.Disabled, id, source.Toggle{}))
	s.none(other)
	if j := s.job(id); j.Status != job.Paused {
		t.Errorf("%+v", j)
	}
}

// do does a command that has to be taken.
func (s *site) do(operation string, id uuid.UUID) job.Job {
	s.Helper()
	j, err := s.Do(s.T.Context(), operation, id)
	if err != nil {
		s.Fatal(err)
	}
	if again, err := s.Do(s.T.Context(), operation, id); err != nil || again.Version != j.Version {
		s.Errorf("%s again: %v, version %d after %d", operation, err, again.Version, j.Version)
	}
	return j
}

func (s *site) refused(operation string, id uuid.UUID, want string) {
	s.Helper()
	_, err := s.Do(s.T.Context(), operation, id)
	if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || !strings.Contains(refusal.Rule, want) {
		s.Errorf("%s: %v, want it to be refused since it %s", operation, err, want)
	}
}

// TestCommands: pausing, resuming and running at once, each also twice.
func TestCommands(t *testing.T) {
	s := newSite(t)
	id, made := s.created()
	if j := s.do(OpForceRun, made.ID); j.ForcedAt == nil {
		t.Errorf("%+v", j)
	}
	s.exec("UPDATE millrace.job_status SET forced_at = now() + interval '1 hour'") // and the clock was set back
	if j := s.do(OpForceRun, made.ID); j.ForcedAt == nil || j.ForcedAt.After(j.UpdatedAt) {
		t.Errorf("it was asked for at once, and is at %s", j.ForcedAt)
	}
	for range 2 {
		if j := s.do(OpSkipNext, made.ID); !j.SkipNext {
			t.Errorf("%+v", j)
		}
	}
	for range 2 {
		if j := s.do(OpUnskipNext, made.ID); j.SkipNext {
			t.Errorf("%+v", j)
		}
	}
	if j := s.do(OpPause, made.ID); j.Status != job.Paused || j.PausedBy != job.ByUser || j.ForcedAt != nil {
		t.Errorf("%+v", j)
	}
	s.refused(OpForceRun, made.ID, "must not be paused")
	if j := s.do(OpResume, made.ID); j.Status != job.Pending || !j.NextRunAt.Equal(*made.NextRunAt) {
		t.Errorf("%+v", j)
	}
	s.exec("UPDATE millrace.job_status SET failure_count = 5, status = 'failed'")
	s.do(OpPause, made.ID)
	if j := s.do(OpResume, made.ID); j.Status != job.Failed {
		t.Errorf("%+v", j)
	}
	s.hand(Applied, s.event(source.Disabled, id, source.Toggle{}))
	s.refused(OpResume, made.ID, "enable the source")
	if j := s.do(OpPause, made.ID); j.PausedBy != job.BySource {
		t.Errorf("%+v", j)
	}
	why, err := s.Bulk(t.Context(), OpResume, nil, Many{IDs: []uuid.UUID{made.ID, uuid.Nil, made.ID}})
	if refusal := (*Refusal)(nil); err != nil || len(why) != 2 || !errors.As(why[made.ID], &refusal) ||
		!errors.Is(why[uuid.Nil], ErrNotFound) {
		t.Errorf("%v, %v", why, err)
	}
	if _, err := s.Do(t.Context(), OpPause, uuid.New()); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	schedules(t, s.Store)
}

// TestOverride: what people set counts until they take it back, whatever the source
// becomes.
func TestOverride(t *testing.T) {
	s := newSite(t)
	id, made := s.created()
	set := func(text string) job.Job {
		t.Helper()
		d := job.ReadDraft([]byte(text))
		CheckCron(d)
		if broken := d.Broken(); len(broken) > 0 {
			t.Fatal(broken)
		}
		j, err := s.Set(t.Context(), made.ID, d)
		if err != nil {
			t.Fatal(err)
		}
		if stored := s.job(id); !reflect.DeepEqual(stored.Settings, j.Settings) || stored.Schedule != j.Schedule {
			t.Errorf("stored is %+v, answered %+v", stored, j)
		}
		return j
	}
	source1 := func(priority string) {
		t.Helper()
		s.hand(Applied, s.event(source.Updated, id, source.Update{
			ChangedFields: []string{"priority"}, Current: map[string]any{"priority": priority},
		}))
	}
	if j := set(`{"interval_minutes":2,"crawl_window":{"start_hour":22,"end_hour":6,"days":[1,5]}}`); j.IntervalMinutes != 2 ||
		j.CrawlWindow.EndHour != 6 || j.NextRunAt.Sub(j.UpdatedAt) > 2*time.Minute || j.NextRunAt.Before(j.UpdatedAt) || !j.AutoManaged {
		t.Errorf("%+v", j)
	}
	source1("critical")
	if j := s.job(id); j.IntervalMinutes != 2 || j.Priority != 100 || j.MaxConcurrent != 3 {
		t.Errorf("an interval that people have set, and a priority that they have not: %+v", j)
	}
	if j := set(`{"interval_minutes":null}`); j.IntervalMinutes != 15 || j.CrawlWindow == nil ||
		j.NextRunAt.Sub(j.UpdatedAt) > 15*time.Minute {
		t.Errorf("%+v", j)
	}
	set(`{"auto_managed":false}`)
	source1("low")
	if j := s.job(id); j.AutoManaged || j.IntervalMinutes != 15 || j.Priority != 100 || j.MaxConcurrent != 3 {
		t.Errorf("a manual job does not follow: %+v", j)
	}
	j, err := s.Unset(t.Context(), made.ID)
	if err != nil || !j.AutoManaged || j.IntervalMinutes != 180 || j.Priority != 25 || j.CrawlWindow != nil ||
		j.Override != (job.Overrides{}) {
		t.Errorf("%+v, %v", j, err)
	}
	schedules(t, s.Store)
}

// TestPast holds invariant 5: a due time that has passed stays to be settled, whatever
// is changed.
func TestPast(t *testing.T) {
	s := newSite(t)
	id, made := s.created()
	s.exec("UPDATE millrace.job_status SET next_run_at = now() - interval '3 minutes'")
	passed := s.job(id).NextRunAt
	s.do(OpPause, made.ID)
	s.do(OpResume, made.ID)
	if _, err := s.Set(t.Context(), made.ID, job.ReadDraft([]byte(`{"interval_minutes":5}`))); err != nil {
		t.Fatal(err)
	}
	s.hand(Applied, s.event(source.Disabled, id, source.Toggle{}), s.event(source.Enabled, id, source.Toggle{}))
	if j := s.job(id); !j.NextRunAt.Equal(*passed) {
		t.Errorf("it is due at %s, and was at %s", j.NextRunAt, passed)
	}
	schedules(t, s.Store)
}

// TestWaits: whoever waits for a job whose schedule somebody is changing finds it, and
// changes what it is then.
func TestWaits(t *testing.T) {
	s := newSite(t)
	id, made := s.created()
	for _, tc := range []struct {
		name string
		act  func() error
		want func(j job.Job) bool
	}{
		{"a command", func() error {
			_, err := s.Do(t.Context(), OpPause, made.ID)
			return err
		}, func(j job.Job) bool { return j.PausedBy == job.ByUser }},
		{"an event", func() error {
			_, _, err := s.Handle(t.Context(), []Event{s.event(source.Disabled, id, source.Toggle{})}, nil)
			return err
		}, func(j job.Job) bool { return j.PausedBy == job.BySource }},
	} {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			"UPDATE millrace.job_settings SET schedule_version = schedule_version + 1",
			"UPDATE millrace.job_schedule SET to_at = now() WHERE to_at IS NULL",
			`INSERT INTO millrace.job_schedule SELECT job_id, version + 1, to_at, NULL, paused, kind, anchor_at,
				interval_minutes, cron, time_zone, 'test' FROM millrace.job_schedule ORDER BY version DESC LIMIT 1`,
		} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- tc.act() }()
		s.waiting()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if j := s.job(id); !tc.want(j) {
			t.Errorf("%s: %+v", tc.name, j)
		}
	}
}

// waiting waits until a transaction waits for another.
func (s *site) waiting() {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		var n int
		err := s.pool.QueryRow(s.T.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			s.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	s.Fatal("nobody waits")
}

// TestReconcile: sources without a job get one, and jobs without a source are orphans,
// but for those whose source others tell of.
func TestReconcile(t *testing.T) {
	s := newSite(t)
	foreign, _ := s.created()
	lost, gone, disabled := uuid.New(), uuid.New(), uuid.New()
	off := example
	off.Enabled = false
	s.insert(lost, example)
	s.insert(gone, example)
	s.insert(disabled, off)
	s.hand(Applied, s.event(source.Created, gone, example))
	s.exec("DELETE FROM millrace.source WHERE id = $1", gone)
	orphan := s.job(gone).ID
	for _, dry := range []bool{true, true, false} {
		s.reconcile(dry, Difference{CreateJob, lost, example.Name, uuid.Nil},
			Difference{OrphanJob, gone, example.Name, orphan})
	}
	s.reconcile(false)
	if j := s.job(lost); j.Origin != job.FromReconciliation || j.Status != job.Pending {
		t.Errorf("%+v", j)
	}
	if j := s.job(gone); j.Status != job.Orphaned || j.NextRunAt != nil {
		t.Errorf("%+v", j)
	}
	if j := s.job(foreign); j.Status != job.Pending {
		t.Errorf("%+v", j)
	}
	s.refused(OpForceRun, orphan, "must have a source")
	s.none(disabled)
	s.hand(Applied, s.event(source.Created, lost, example), s.event(source.Deleted, gone, source.Deletion{}))
	s.none(gone)
	schedules(t, s.Store)
}

func (s *site) reconcile(dry bool, want ...Difference) {
	s.Helper()
	got, err := s.Reconcile(s.T.Context(), dry)
	if err != nil || !slices.Equal(got, want) {
		s.Errorf("dry %v: %+v, %v, want %+v", dry, got, err, want)
	}
}

// TestNumbers holds the numbers of jobs and runs to a plain recount.
func TestNumbers(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	var ids []uuid.UUID
	for range 4 {
		id, _ := s.created()
		ids = append(ids, id)
	}
	off := example
	off.Enabled = false
	s.insert(uuid.New(), off)
	run := func(of uuid.UUID, hoursAgo, n, articles int, status string) {
		t.Helper()
		for range n {
			id, err := uuid.NewV7()
			if err != nil {
				t.Fatal(err)
			}
			s.exec(`INSERT INTO millrace.executions (id, job_id, source_id, due_at, status, started_at, completed_at,
				articles_count, duration_seconds)
				SELECT $1, id, source_id, now(), $3, now() - $4::integer * interval '1 hour' - interval '3 s',
					CASE WHEN $3 <> 'running' THEN now() - $4::integer * interval '1 hour' END, $5, 3
				FROM millrace.jobs WHERE source_id = $2`, id, of, status, hoursAgo, articles)
		}
	}
	run(ids[0], 1, 46, 20, "success")
	run(ids[0], 2, 1, 0, "failed")
	run(ids[0], 25, 9, 1000, "failed")
	run(ids[1], 1, 7, 10, "success")
	run(ids[1], 1, 1, 0, "failed")
	run(ids[1], 1, 2, 0, "cancelled")
	run(ids[2], 0, 1, 0, "running")
	s.exec("UPDATE millrace.job_status SET failure_count = 3"+ofSource, ids[3])
	stats, err := s.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(stats)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"total_sources":1,"total_jobs":4,"jobs_by_status":{"failed":0,"orphaned":0,"paused":0,` +
		`"pending":4,"running":0},` +
		`"health":{"healthy":1,"warning":1,"failed":1,"unknown":1},` +
		`"runs":{"queued":0,"running":0,"oldest_queued_age_s":null},` +
		`"last_24h":{"total_runs":55,"successful_runs":53,"failed_runs":2,"articles_extracted":990,` +
		`"success_rate":0.964},` +
		`"throughput":{"articles_per_hour":41,"runs_per_hour":2}}`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	all, err := s.List(ctx, Filter{}, uuid.Nil, 10)
	if err != nil || len(all) != 4 {
		t.Fatal(len(all), err)
	}
	h := all[0].Health
	if h.Runs != 47 || h.Failures != 1 || h.Articles != 920 || *h.SuccessRate != 0.979 || *h.AvgDuration != 3 ||
		h.Status != job.Healthy || *h.LastStatus != "failed" || h.LastRunAt == nil {
		t.Errorf("%+v", h)
	}
	if h := all[1].Health; h.Status != job.Warning || all[3].Health.Status != job.Failed ||
		all[3].Health.SuccessRate != nil {
		t.Errorf("%+v, %+v", h, all[3].Health)
	}
	s.exec("UPDATE millrace.job_status SET running = 2, backoff_until = now() + interval '1 h'"+ofSource, ids[2])
	s.exec("UPDATE millrace.job_status SET backoff_until = now() - interval '1 h'"+ofSource, ids[3])
	n, err := s.Numbers(ctx)
	if err != nil || n.ByStatus[job.Pending] != 4 || n.ByPriority[50] != 4 || n.Resting != 1 || n.Queued != 2 {
		t.Errorf("%+v, %v", n, err)
	}
}

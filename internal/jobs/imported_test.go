package jobs

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// noHerd holds that over the day that follows, no minute has more than twice the due times that
// it has when the jobs of sources are spread evenly, and a few more.
func (s *site) noHerd(what string, of []uuid.UUID) {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), `SELECT j.next_run_at, s.anchor_at, s.interval_minutes
		FROM millrace.jobs AS j JOIN millrace.job_schedule AS s ON s.job_id = j.id AND s.to_at IS NULL
		WHERE j.source_id = ANY ($1)`, of)
	if err != nil {
		s.Fatal(err)
	}
	var start time.Time
	if err := s.pool.QueryRow(s.Context(), "SELECT now()").Scan(&start); err != nil {
		s.Fatal(err)
	}
	const day = 24 * time.Hour
	minutes := make([]int, day/time.Minute)
	var next, anchor time.Time
	interval, jobs := 0, 0
	_, err = pgx.ForEachRow(rows, []any{&next, &anchor, &interval}, func() error {
		r, broken := schedule.Spec{Interval: time.Duration(interval) * time.Minute, Anchor: anchor}.Compile()
		if broken != nil {
			return &broken[0]
		}
		// Without a scheduler, some have passed when the schedule changes.
		if jobs++; !next.Before(start) && !r.Next(next.Add(-time.Microsecond)).Equal(next) {
			s.Errorf("%s: a job is due at %s, which its schedule from %s does not say", what, next, anchor)
		}
		for at := r.Next(start); at.Before(start.Add(day)); at = r.Next(at) {
			minutes[at.Sub(start)/time.Minute]++
		}
		return nil
	})
	if err != nil || jobs != len(of) {
		s.Fatalf("%s: %d jobs, %v", what, jobs, err)
	}
	even := len(of) / interval
	worst := slices.Max(minutes)
	s.Logf("%s: %d jobs every %d minutes: %d due times in the worst minute, %d when spread evenly", what, jobs, interval,
		worst, even)
	if worst > 2*even+2*atOnce {
		s.Errorf("%s: %d of %d jobs are due in one minute", what, worst, jobs)
	}
}

// TestImportedDay: sources that are imported together are not due together, neither at first nor
// later, when all of them change, or are disabled and enabled again.
func TestImportedDay(t *testing.T) {
	slowtest.Mark(t)
	s := newSite(t)
	const sources, changed, batch = 10_000, 2000, 500
	ids := make([]uuid.UUID, sources)
	all := func(ids []uuid.UUID, kind string, payload any) {
		t.Helper()
		for some := range slices.Chunk(ids, batch) {
			events := make([]Event, len(some))
			for i, id := range some {
				events[i] = s.event(kind, id, payload)
			}
			s.hand(Applied, events...)
		}
	}
	for i := range ids {
		ids[i] = uuid.New()
	}
	all(ids, source.Created, example)
	s.noHerd("imported", ids)

	some := ids[:changed]
	for _, rate := range []int{5, 20, 10} { // 90, 45 and 60 minutes
		all(some, source.Updated, source.Update{
			ChangedFields: []string{"rate_limit"}, Current: map[string]any{"rate_limit": rate},
		})
		s.noHerd("changed", some)
	}
	all(some, source.Disabled, source.Toggle{})
	all(some, source.Enabled, source.Toggle{})
	s.noHerd("enabled again", some)

	for _, settings := range []string{`{"interval_minutes":30}`, `{"cron":"0 6 * * *"}`, `{"interval_minutes":120}`} {
		for of := range slices.Chunk(some, batch) {
			why, err := s.Bulk(t.Context(), OpOverride, job.ReadDraft([]byte(settings)), Many{IDs: of, OfSources: true})
			if err != nil || len(why) > 0 {
				t.Fatal(why, err)
			}
		}
		if settings != `{"cron":"0 6 * * *"}` {
			s.noHerd(settings, some)
		}
	}
}

// TestFewBeginSoon: a few new sources wait no longer than their priority says.
func TestFewBeginSoon(t *testing.T) {
	s := newSite(t)
	for i := range 2 * atOnce {
		f := example
		f.Priority = []string{"critical", "high", "normal", "low"}[i%4]
		id := uuid.New()
		s.hand(Applied, s.event(source.Created, id, f))
		j := s.job(id)
		delay := []time.Duration{0, time.Minute, 5 * time.Minute, 10 * time.Minute}[i%4]
		wait := j.NextRunAt.Sub(j.CreatedAt)
		if i < atOnce && wait != delay || wait < delay || wait >= delay+time.Duration(j.IntervalMinutes)*time.Minute {
			t.Errorf("job %d, %s: it runs after %s", i, f.Priority, wait)
		}
	}
}

// TestSettleReads: sources that have no job yet are passed once, in however many parts jobs get what waits for them.
func TestSettleReads(t *testing.T) {
	s := newSite(t)
	const jobs, idle = 4 * pendingAtOnce, 4000
	for range jobs / pendingAtOnce {
		events := make([]Event, pendingAtOnce)
		for i := range events {
			id := uuid.New()
			id[0] |= 0x80 // behind those without jobs
			events[i] = s.event(source.Created, id, example)
		}
		s.hand(Applied, events...)
	}
	s.exec(`INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled, selectors, priority)
		SELECT lpad(to_hex(n), 32, '0')::uuid, n, 'https://example.com/' || n, 10, 1, false, '{}', 'normal'
		FROM generate_series(1, $1::int) AS n`, idle)
	s.exec(`INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled, selectors, priority)
		SELECT source_id, source_id, url, 10, 1, true, '{}', 'normal' FROM millrace.job_settings ON CONFLICT DO NOTHING`)
	s.exec(`INSERT INTO millrace.pending_override (source_id, settings) SELECT id, '{"max_attempts":3}' FROM millrace.source`)
	s.exec("ANALYZE millrace.pending_override")
	embeddedtest.KeepRows(t, s.pool)
	reads := embeddedtest.CountReads(t, s.pool, "auto", "pending_override")
	one, err := New(Config{}, reads.Pool)
	if err != nil {
		t.Fatal(err)
	}
	reads.Most("settings of jobs", 3*jobs, func(ctx context.Context) error {
		n, err := one.Settle(ctx)
		if n != jobs {
			t.Errorf("%d jobs have got settings, want %d", n, jobs)
		}
		return err
	})
}

// TestPending: settings that a list gives become those of the job: when it is made, or, where
// there is one, soon.
func TestPending(t *testing.T) {
	s := newSite(t)
	id := uuid.New()
	put := func(settings string) {
		t.Helper()
		s.exec(`INSERT INTO millrace.pending_override (source_id, settings) VALUES ($1, $2)`, id, settings)
	}
	settled := func(want int) {
		t.Helper()
		if n, err := s.Settle(t.Context()); n != want || err != nil {
			t.Errorf("%d jobs have got settings, %v, want %d", n, err, want)
		}
	}
	s.exec(`INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled, selectors, priority)
		VALUES ($1, 'a', 'https://example.com', 10, 1, true, '{}', 'normal')`, id)
	put(`{"interval_minutes":7,"jitter_seconds":30}`)
	settled(0) // there is no job yet
	s.hand(Applied, s.event(source.Created, id, example))
	if j := s.job(id); j.IntervalMinutes != 7 || j.JitterSeconds != 30 || j.Override.JitterSeconds == nil {
		t.Errorf("made: %+v", j)
	}
	settled(0)
	put(`{"cron":"0 6 * * *","jitter_seconds":null,"max_attempts":3}`)
	settled(1)
	if j := s.job(id); j.Schedule.Cron != "0 6 * * *" || j.JitterSeconds != 0 || j.MaxAttempts != 3 {
		t.Errorf("changed: %+v", j)
	}
	settled(0)
}

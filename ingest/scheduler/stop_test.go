package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/ingest/scheduler"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/jobs/jobstest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/source"
)

// sourceJob makes a source by an event, and returns its job, which is due at once.
func (s *site) sourceJob() (ofSource, id uuid.UUID) {
	s.Helper()
	ofSource = uuid.New()
	f := source.New()
	f.Name, f.URL, f.Priority = "Example News", "https://example.com", "critical"
	jobstest.Tell(s.T, s.jobs(), 1, source.Created, ofSource, f)
	made, err := s.jobs().OfSource(s.Context(), ofSource)
	if err != nil {
		s.Fatal(err)
	}
	return ofSource, made.ID
}

// runs shows the runs of a job, the oldest first, and what the ledger says of each.
func (s *site) runs(job uuid.UUID) (text string) {
	s.Helper()
	err := s.pool.QueryRow(s.Context(), `SELECT string_agg(e.status || coalesce(' (' || e.error || ')', '') || ': ' ||
			l.outcome || coalesce(' ' || nullif(l.reason, ''), ''), ', ' ORDER BY e.id)
		FROM millrace.executions AS e
		JOIN millrace.job_ledger AS l ON l.job_id = e.job_id AND l.execution_id = e.id
		WHERE e.job_id = $1`, job).Scan(&text)
	if err != nil {
		s.Fatal(err)
	}
	return text
}

// TestStopped (6): whatever stops a job, its run that no worker has is cancelled, and the one
// that a worker has goes on.
func TestStopped(t *testing.T) {
	t.Parallel()
	do := func(operation string) func(*site, uuid.UUID, uuid.UUID) error {
		return func(s *site, _, id uuid.UUID) error {
			_, err := s.jobs().Do(s.Context(), operation, id)
			return err
		}
	}
	tell := func(kind string) func(*site, uuid.UUID, uuid.UUID) error {
		return func(s *site, of, _ uuid.UUID) error {
			jobstest.Tell(s.T, s.jobs(), 2, kind, of, nil)
			return nil
		}
	}
	for name, tc := range map[string]struct {
		stop func(s *site, of, id uuid.UUID) error
		why  string
	}{
		"paused": {do(jobs.OpPause), "the job was paused"},
		"paused with others": {func(s *site, of, _ uuid.UUID) error {
			_, err := s.jobs().Bulk(s.Context(), jobs.OpPause, nil, jobs.Many{IDs: []uuid.UUID{of}, OfSources: true})
			return err
		}, "the job was paused"},
		"disabled": {tell(source.Disabled), "the source of the job was disabled"},
		"deleted":  {tell(source.Deleted), "the job was deleted with its source"},
		"orphaned": {func(s *site, of, _ uuid.UUID) error {
			s.exec("UPDATE millrace.source_state SET own = true WHERE source_id = $1", of)
			_, err := s.jobs().Reconcile(s.Context(), false)
			return err
		}, "the source of the job does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, scheduler.Config{})
			of, id := s.sourceJob()
			s.settle()
			if n := s.work(item.Start, ""); n != 1 {
				t.Fatalf("%d runs began", n)
			}
			s.clock(15 * time.Minute) // the next due time
			s.settle()
			s.equal("before", s.runs(id), "running: ran, queued: ran")
			if err := tc.stop(s, of, id); err != nil {
				t.Fatal(err)
			}
			s.settle()
			s.settle()
			want := "cancelled (" + tc.why + "): ran its run was cancelled before a worker took it: " + tc.why
			s.equal("stopped", s.runs(id), "running: ran, "+want)
			if n := s.work(item.Start, ""); n != 0 {
				t.Errorf("%d runs of a stopped job began", n)
			}
			if n := s.work(item.Complete, "{}"); n != 1 {
				t.Errorf("%d runs that a worker had ended", n)
			}
			s.settle()
			s.equal("ended", s.runs(id), "success: ran, "+want)
			if r := s.audit(); !r.Sound() {
				t.Errorf("%+v", r)
			}
			if name != "deleted" && !strings.Contains(s.state(id), " 0 under way, 0 failures") {
				t.Error(s.state(id))
			}
		})
	}
}

// TestStoppedAndResumed (6): a job that has been resumed keeps its runs.
func TestStoppedAndResumed(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	_, id := s.sourceJob()
	s.settle()
	for _, operation := range []string{jobs.OpPause, jobs.OpResume} {
		if _, err := s.jobs().Do(t.Context(), operation, id); err != nil {
			t.Fatal(err)
		}
	}
	s.settle()
	s.equal("resumed", s.runs(id), "queued: ran")
	if n := s.work(item.Start, ""); n != 1 {
		t.Errorf("%d runs began", n)
	}
}

// TestStoppedRunComesBack (6): a run that a worker gives back while its job is stopped, or that
// is retried then, is cancelled.
func TestStoppedRunComesBack(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	of, id := s.sourceJob()
	s.settle()
	s.work(item.Start, "")
	jobstest.Tell(s.T, s.jobs(), 2, source.Disabled, of, nil)
	s.settle()
	s.equal("disabled", s.runs(id), "running: ran")
	s.work(item.Release, "")
	s.settle()
	s.settle()
	const cancelled = "cancelled (the source of the job was disabled): " +
		"ran its run was cancelled before a worker took it: the source of the job was disabled"
	s.equal("given back", s.runs(id), cancelled)
	jobstest.Tell(s.T, s.jobs(), 3, source.Deleted, of, nil)
	var itemID int64
	if err := s.pool.QueryRow(t.Context(), "SELECT item_id FROM millrace.executions").Scan(&itemID); err != nil {
		t.Fatal(err)
	}
	s.clock(time.Minute)
	if r, err := s.q.Retry(t.Context(), s.id, []int64{itemID}); err != nil || r[0].Outcome != item.Changed {
		t.Fatal(r, err)
	}
	s.clock(2 * time.Minute)
	s.settle()
	s.settle()
	s.equal("tried again", s.runs(id), strings.ReplaceAll(cancelled, "the source of the job was disabled",
		"the job was deleted with its source"))
	if n := s.work(item.Start, ""); n != 0 {
		t.Errorf("%d runs of a deleted job began", n)
	}
}

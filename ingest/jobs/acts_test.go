package jobs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// act begins an act on jobs, takes its turns, and returns its record then.
func (s *site) act(body string, matched int) (a acts.Act) {
	s.T.Helper()
	status, text := s.Post("/jobs/acts", body)
	if s.Into(&a, 201, status, text); a.Matched != matched || a.Subject != "jobs" {
		s.T.Fatalf("%s matches %s, want %d", body, text, matched)
	}
	for a.State == acts.Running {
		if _, err := s.Bulk.Step(s.T.Context()); err != nil {
			s.T.Fatal(err)
		}
		var err error
		if a, err = s.Bulk.Get(s.T.Context(), a.ID); err != nil {
			s.T.Fatal(err)
		}
	}
	if a.State != acts.Finished || a.Left != 0 {
		s.T.Errorf("%+v", a)
	}
	return a
}

// TestAct: jobs are paused, resumed, run and set by filter, as /jobs/bulk does it by ids; those
// that are refused have failed, with the reason.
func TestAct(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	for i := range 20 {
		id, f := uuid.New(), source.New()
		f.Name, f.URL = fmt.Sprintf("source %d", i), "https://example.com"
		s.Tell(source.Created, id, f)
		if i == 0 {
			s.Tell(source.Disabled, id, source.Toggle{Reason: "why"})
		}
	}
	count := func(f jobs.Filter) int64 {
		t.Helper()
		n, err := s.Jobs.Count(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// "source 1" and "source 10" to "source 19".
	if a := s.act(`{"move":"pause","filter":{"q":"SOURCE 1"}}`, 11); a.Done != 11 {
		t.Errorf("%+v", a)
	}
	if a := s.act(`{"move":"pause","filter":{"status":"paused"}}`, 12); a.Done != 12 || count(jobs.Filter{Status: "paused"}) != 12 {
		t.Errorf("those that are as they are to be: %+v", a)
	}
	a := s.act(`{"move":"resume","filter":{"status":"paused"}}`, 12)
	if a.Done != 11 || a.Failed != 1 || count(jobs.Filter{Status: "paused"}) != 1 {
		t.Errorf("one is of a source that is disabled: %+v", a)
	}
	members, err := s.Bulk.Members(t.Context(), a.ID)
	if err != nil || len(members) != 1 || !strings.Contains(members[0].Reason, "enable the source") ||
		!strings.Contains(string(members[0].Details), `"source_name":"source 0"`) {
		t.Errorf("%+v, %v", members, err)
	}
	if a := s.act(`{"move":"force-run","filter":{"status":"pending"}}`, 19); a.Done != 19 {
		t.Errorf("%+v", a)
	}
	a = s.act(`{"move":"override","filter":{},"override":{"interval_minutes":45, "priority":7}}`, 20)
	priority := 7
	if a.Done != 20 || count(jobs.Filter{Priority: &priority}) != 20 || !strings.Contains(string(a.Arguments), `"priority":7`) {
		t.Errorf("%+v", a)
	}
	if a := s.act(`{"move":"skip-next","filter":{"priority":6}}`, 0); a.Done != 0 {
		t.Errorf("%+v", a)
	}
	if !strings.Contains(string(a.Filter), `"priority":-1`) {
		t.Errorf("the filter of all is %s", a.Filter)
	}
}

// TestActMeanwhile: a job that has gone, or that its filter does not match any more, is skipped.
func TestActMeanwhile(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	gone, paused := s.made(), s.made()
	s.made()
	var a acts.Act
	status, text := s.PostWith(http.Header{"Idempotency-Key": {"k"}}, "/jobs/acts", `{"move":"force-run","filter":{"status":"pending"}}`)
	if s.Into(&a, 201, status, text); a.Matched != 3 {
		t.Fatal(text)
	}
	if _, err := s.Jobs.Do(t.Context(), jobs.OpPause, paused.ID); err != nil {
		t.Fatal(err)
	}
	s.Tell(source.Deleted, gone.SourceID, source.Deletion{Reason: "why"})
	if _, err := s.Bulk.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := s.Bulk.Get(t.Context(), a.ID)
	if err != nil || a.Done != 1 || a.Skipped != 2 || a.Failed != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	members, err := s.Bulk.Members(t.Context(), a.ID)
	if err != nil || len(members) != 2 {
		t.Errorf("%+v, %v", members, err)
	}
	for _, m := range members {
		want := map[string]string{gone.ID.String(): acts.Gone.Reason, paused.ID.String(): acts.Unmatched.Reason}[m.ID]
		var details struct {
			JobID string `json:"job_id"`
		}
		if err := json.Unmarshal(m.Details, &details); err != nil || details.JobID != m.ID || m.Reason != want {
			t.Errorf("%s: %s, want %s; %s, %v", m.ID, m.Reason, want, m.Details, err)
		}
	}
}

// TestActOfSources: an act on the jobs of the sources in the list leaves those alone whose source
// is gone, and has as many members as there are such sources.
func TestActOfSources(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	kept, orphan, unlisted := s.made(), s.made(), s.made()
	if _, err := s.Store.Pool().Exec(t.Context(), `INSERT INTO millrace.source
		(id, name, url, rate_limit, max_depth, enabled, selectors, priority)
		VALUES ($1, 'kept', 'https://example.com', 10, 1, true, '{}', 'normal')`, kept.SourceID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store.Pool().Exec(t.Context(), "UPDATE millrace.job_status SET status = 'orphaned' WHERE id = $1",
		orphan.ID); err != nil {
		t.Fatal(err)
	}
	if a := s.act(`{"move":"pause","filter":{"has_source":"true"}}`, 1); a.Done != 1 || a.Failed != 0 {
		t.Errorf("%+v", a)
	}
	if d, err := s.Jobs.Get(t.Context(), unlisted.ID); err != nil || d.Status != job.Pending {
		t.Errorf("%+v, %v", d.Job, err)
	}
	if a := s.act(`{"move":"pause","filter":{"has_source":"false"}}`, 2); a.Done != 1 || a.Failed != 1 {
		t.Errorf("%+v", a)
	}
}

// TestActScope: only operators begin acts, and the key of one is not that of another.
func TestActScope(t *testing.T) {
	s := serve(t, auth.New(auth.Config{Secret: trackingtest.Secret}))
	s.made()
	s.CheckActScope("/jobs/acts", `{"move":"pause","filter":{}}`)
}

// TestActRules: what cannot be is refused with its field.
func TestActRules(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	for _, c := range []struct{ body, field string }{
		{`{"move":"mend","filter":{}}`, "move"},
		{`{"move":"pause"}`, "filter"},
		{`{"move":"pause","filter":{"status":"asleep"}}`, "status"},
		{`{"move":"pause","filter":{"priority":101}}`, "priority"},
		{`{"move":"pause","filter":{"source_id":"x"}}`, "source_id"},
		{`{"move":"pause","filter":{"colour":"red"}}`, "colour"},
		{`{"move":"pause","filter":{"has_source":"maybe"}}`, "has_source"},
		{`{"move":"pause","filter":{},"override":{"interval_minutes":5}}`, "override"},
		{`{"move":"override","filter":{}}`, "override"},
		{`{"move":"override","filter":{},"override":{"max_attempts":0}}`, "override.max_attempts"},
		{`{"move":"override","filter":{},"override":{"cron":"every day"}}`, "override.cron"},
	} {
		if status, text := s.Post("/jobs/acts", c.body); status != 400 || !strings.Contains(text, c.field) {
			t.Errorf("%s: %d %s, want 400 and %s", c.body, status, text, c.field)
		}
	}
}

// TestActDescribed: the description of records of acts names the moves and the filters of sources and of jobs.
func TestActDescribed(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	var api struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Enum  []string
					AnyOf []map[string]string
				}
			}
		}
	}
	status, text := s.Get("/openapi.json")
	s.Into(&api, 200, status, text)
	for _, name := range []string{"Act", "BegunAct"} {
		of := api.Components.Schemas[name].Properties
		filters := of["filter"].AnyOf
		if !slices.Contains(of["move"].Enum, "unskip-next") || !slices.Contains(of["move"].Enum, "delete") ||
			len(filters) != 2 || filters[0]["$ref"] != "#/components/schemas/SourceFilter" ||
			filters[1]["$ref"] != "#/components/schemas/JobFilter" {
			t.Errorf("%s: %+v", name, of)
		}
	}
}

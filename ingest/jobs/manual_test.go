package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// serveManual is a server of an installation whose sources get no jobs by themselves.
func serveManual(t *testing.T) *site {
	t.Helper()
	return serveWith(t, auth.New(auth.Config{}), jobs.Config{Manual: true})
}

// told makes a source that events tell of, with a priority.
func (s *site) told(priority string) string {
	id, f := uuid.New(), source.New()
	f.Name, f.URL, f.Priority = "Told "+priority, "https://example.com/"+priority, priority
	s.Tell(source.Created, id, f)
	return id.String()
}

func (s *site) make(want int, body string) (made job.Job, text string) {
	s.T.Helper()
	status, text := s.Post("/jobs", body)
	if status != want {
		s.T.Fatalf("POST /jobs %s: %d %s, want %d", body, status, text, want)
	}
	if want == 201 {
		s.Into(&made, 201, status, text)
	}
	return made, text
}

// TestManualJobs: jobs are made by hand until they are migrated, which says of each
// what changes and has it follow its source; then making one answers 410 and what to
// do instead.
func TestManualJobs(t *testing.T) {
	s := serveManual(t)
	a, b, c := s.told("high"), s.told("normal"), s.told("low")
	window := `"crawl_window":{"start_hour":22,"end_hour":6}`
	one, _ := s.make(201, `{"source_id":"`+a+`","interval_minutes":7,"priority":3,`+window+`}`)
	if one.Origin != job.Manual || one.AutoManaged || one.IntervalMinutes != 7 || one.Priority != 3 ||
		one.MaxConcurrent != 2 || one.CrawlWindow == nil || one.Status != job.Pending || one.NextRunAt == nil {
		t.Errorf("%+v", one)
	}
	two, _ := s.make(201, `{"source_id":"`+b+`","cron":"30 6 * * *","time_zone":"Europe/Berlin"}`)
	if at := two.NextRunAt.In(berlin(t)); at.Hour() != 6 || at.Minute() != 30 || two.Schedule.Cron != "30 6 * * *" {
		t.Errorf("%+v runs next at %s", two, at)
	}
	if _, text := s.make(409, `{"source_id":"`+a+`","interval_minutes":7}`); !strings.Contains(text, one.ID.String()) {
		t.Error(text)
	}
	s.make(404, `{"source_id":"`+uuid.NewString()+`","interval_minutes":7}`)
	// A manual job does not follow the settings of its source, and follows what it is.
	s.Tell(source.Updated, uuid.MustParse(a), map[string]any{
		"changed_fields": []string{"priority"}, "previous": map[string]any{"priority": "high"},
		"current": map[string]any{"priority": "critical"},
	})
	s.Tell(source.Disabled, uuid.MustParse(b), nil)

	_, plan := s.Post("/jobs/migrate?dry_run=true", "")
	s.make(409, `{"source_id":"`+a+`","interval_minutes":7}`) // nothing has changed
	_, done := s.Post("/jobs/migrate", "")
	if strings.Replace(plan, `"dry_run":true`, `"dry_run":false`, 1) != done {
		t.Errorf("%s\nwas to be\n%s", done, plan)
	}
	var all MigratedJobs
	if err := json.Unmarshal([]byte(done), &all); err != nil {
		t.Fatal(err)
	}
	changes := map[string]string{}
	for _, m := range all.Jobs {
		changes[m.SourceID.String()] = m.Action + ": " + strings.Join(m.Changes, "; ")
	}
	want := map[string]string{
		a: "migrate_job: interval_minutes: 7 → 15; priority: 3 → 100; max_concurrent: 2 → 3",
		b: "migrate_job: cron: 30 6 * * * in Europe/Berlin → none",
	}
	for id, text := range want {
		if changes[id] != text {
			t.Errorf("%s: %q, want %q", id, changes[id], text)
		}
	}
	s.checkMigrated(one.ID, two.ID)
	for _, body := range []string{`{"source_id":"` + c + `","interval_minutes":7}`, `{"interval":7}`} {
		if _, text := s.make(410, body); !strings.Contains(text, "POST /api/v1/sources") ||
			!strings.Contains(text, `"code":"migrated"`) {
			t.Error(text)
		}
	}
	// From then on sources have jobs, whatever the setting says.
	s.told("critical")
	if _, again := s.Post("/jobs/migrate", ""); again != `{"dry_run":false,"jobs":[]}` {
		t.Error(again)
	}
	if n, err := s.Jobs.Count(t.Context(), jobs.Filter{}); err != nil || n != 3 {
		t.Errorf("%d jobs: %v", n, err)
	}
}

// checkMigrated holds migrated jobs to their sources: one is of a critical source, the
// other of one that is disabled.
func (s *site) checkMigrated(one, two uuid.UUID) {
	s.T.Helper()
	a, err := s.Jobs.Get(s.T.Context(), one)
	if err != nil {
		s.T.Fatal(err)
	}
	if !a.AutoManaged || a.MigratedAt == nil || a.IntervalMinutes != 15 || a.Override.IntervalMinutes != nil ||
		a.CrawlWindow == nil || a.NextRunAt.After(time.Now().Add(15*time.Minute)) {
		s.T.Errorf("%+v", a)
	}
	b, err := s.Jobs.Get(s.T.Context(), two)
	if err != nil {
		s.T.Fatal(err)
	}
	if b.Schedule.Kind != "interval" || b.IntervalMinutes != 60 || b.Status != job.Paused || b.PausedBy != job.BySource {
		s.T.Errorf("%+v", b)
	}
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestMigrateTable: a migration makes the jobs that sources in the table lack, and
// leaves a manual job whose source is gone.
func TestMigrateTable(t *testing.T) {
	s := serveManual(t)
	pool := s.Store.Pool()
	var ids [3]string
	for i := range ids {
		ids[i] = uuid.NewString()
		_, err := pool.Exec(t.Context(), `INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled,
			selectors, priority) VALUES ($1, 'a', 'https://example.com', 10, 1, $2, '{}', 'normal')`, ids[i], i < 2)
		if err != nil {
			t.Fatal(err)
		}
	}
	s.make(201, `{"source_id":"`+ids[0]+`","interval_minutes":7}`)
	if off, _ := s.make(201, `{"source_id":"`+ids[2]+`","interval_minutes":7}`); off.PausedBy != job.BySource {
		t.Errorf("%+v", off)
	}
	if _, err := pool.Exec(t.Context(), "DELETE FROM millrace.source WHERE id = $1", ids[0]); err != nil {
		t.Fatal(err)
	}
	all, err := s.Jobs.Migrate(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range all {
		got[m.SourceID.String()] = m.Action
	}
	if len(got) != 3 || got[ids[0]] != "leave_job" || got[ids[1]] != "create_job" || got[ids[2]] != "migrate_job" {
		t.Errorf("%v of %v", got, ids)
	}
}

// TestManualRefused: what is wrong with a job that is to be made is said by field and
// rule.
func TestManualRefused(t *testing.T) {
	s := serveManual(t)
	id := s.told("low")
	for body, want := range map[string]string{
		`{"interval_minutes":5}`:                                         `"source_id","code":"missing"`,
		`{"source_id":7,"interval_minutes":5}`:                           `"source_id","code":"type"`,
		`{"source_id":null,"interval_minutes":5}`:                        `"source_id","code":"type"`,
		`{"source_id":"7","interval_minutes":5}`:                         `"source_id","code":"uuid"`,
		`{"source_id":"` + id + `"}`:                                     `"interval_minutes","code":"missing"`,
		`{"source_id":"` + id + `","cron":null}`:                         `"interval_minutes","code":"missing"`,
		`{"source_id":"` + id + `","interval_minutes":0}`:                `"interval_minutes","code":"range"`,
		`{"source_id":"` + id + `","interval_minutes":5,"cron":"x"}`:     `"cron","code":"conflict"`,
		`{"source_id":"` + id + `","cron":"x"}`:                          `"cron","code":"cron"`,
		`{"source_id":"` + id + `","cron":"@daily","auto_managed":true}`: `"auto_managed","code":"field_unknown"`,
		`{"soruce_id":"` + id + `","cron":"@daily"}`:                     "the nearest is source_id",
		`[]`:  `"code":"json"`,
		`nul`: `"errors":[{"field":""`,
	} {
		if _, text := s.make(400, body); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", body, text, want)
		}
	}
	if status, text := s.Post("/jobs/migrate?dry_run=perhaps", ""); status != 400 || !strings.Contains(text, "dry_run") {
		t.Error(status, text)
	}
}

package jobs

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/jobs/jobstest"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// site is a server with the commands on a database of its own.
type site struct{ *jobstest.Site }

func serve(t *testing.T, a *auth.Auth) *site { return serveWith(t, a, jobs.Config{}) }

func serveWith(t *testing.T, a *auth.Auth, cfg jobs.Config) *site {
	t.Helper()
	t.Parallel()
	s := &site{jobstest.New(t, &engine, cfg)}
	s.Serve(a, New(s.Sources, s.Jobs, s.Bulk))
	return s
}

// made is the job of a source.
func (s *site) made() job.Job {
	s.T.Helper()
	id, f := uuid.New(), source.New()
	f.Name, f.URL = "Example News", "https://example.com"
	s.Tell(source.Created, id, f)
	d, err := s.Jobs.OfSource(s.T.Context(), id)
	if err != nil {
		s.T.Fatal(err)
	}
	return d.Job
}

// want sends a request and returns the job of its answer.
func (s *site) want(method, path, body string) (j job.Job) {
	s.T.Helper()
	status, text := s.Do(method, nil, path, body)
	s.Into(&j, 200, status, text)
	return j
}

// TestCommands goes the way of a job over HTTP.
func TestCommands(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	made := s.made()
	path := "/jobs/" + made.ID.String()
	if j := s.want("POST", path+"/force-run", ""); j.ForcedAt == nil || j.Status != job.Pending {
		t.Errorf("%+v", j)
	}
	if j := s.want("POST", path+"/skip-next", ""); !j.SkipNext {
		t.Errorf("%+v", j)
	}
	if j := s.want("POST", path+"/pause", "{}"); j.Status != job.Paused || j.PausedBy != job.ByUser ||
		j.NextRunAt != nil {
		t.Errorf("%+v", j)
	}
	if j := s.want("POST", path+"/resume", ""); j.Status != job.Pending || j.NextRunAt == nil {
		t.Errorf("%+v", j)
	}
	j := s.want("PUT", path+"/override", `{"interval_minutes":7,"priority":90,"crawl_window":{"start_hour":22,`+
		`"end_hour":6}}`)
	if j.IntervalMinutes != 7 || j.Priority != 90 || j.CrawlWindow == nil || *j.Override.Priority != 90 {
		t.Errorf("%+v", j)
	}
	j = s.want("PUT", path+"/override", `{"interval_minutes":null,"cron":"30 6 * * `+
		`mon-fri","time_zone":"Europe/Berlin"}`)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if next := j.NextRunAt.In(berlin); j.Schedule.Cron == "" || j.IntervalMinutes != 60 || next.Hour() != 6 ||
		next.Minute() != 30 {
		t.Errorf("%+v is due at %s", j, next)
	}
	if j := s.want("DELETE", path+"/override", ""); j.IntervalMinutes != 60 || j.Schedule.Kind != "interval" ||
		j.CrawlWindow != nil ||
		j.Override != (job.Overrides{}) {
		t.Errorf("%+v", j)
	}
	s.Tell(source.Disabled, made.SourceID, nil)
	for path, rule := range map[string]string{
		path + "/resume":    "enable the source",
		path + "/force-run": "must not be paused",
	} {
		if status, text := s.Post(path, ""); status != 409 || !strings.Contains(text, rule) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// TestBulk: each member of a request has its result.
func TestBulk(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	a, b := s.made(), s.made()
	s.Tell(source.Disabled, b.SourceID, nil)
	unknown := uuid.NewString()
	ask := func(operation string) string {
		t.Helper()
		status, text := s.Post("/jobs/bulk", `{"operation":"`+operation+`","ids":["`+
			strings.Join([]string{a.ID.String(), b.ID.String(), unknown, "1"}, `","`)+`"]}`)
		if status != 200 {
			t.Fatal(status, text)
		}
		return text
	}
	for operation, want := range map[string]string{
		"pause":     `true`,
		"resume":    `false,"error":"must be of a source that is enabled: enable the source to resume it"`,
		"force-run": `false,"error":"must not be paused: resume it first"`,
		"skip-next": `false,"error":"must not be paused: resume it first"`,
	} {
		s.want("POST", "/jobs/"+a.ID.String()+"/resume", "")
		got := ask(operation)
		all := `{"results":[{"id":"` + a.ID.String() + `","ok":true},{"id":"` + b.ID.String() + `","ok":` + want +
			`},{"id":"` + unknown +
			`","ok":false,"error":"there is no such job"},{"id":"1","ok":false,"error":"` + source.BadID("id").Rule +
			`"}]}`
		if got != all {
			t.Errorf("%s: %s\nwant %s", operation, got, all)
		}
	}
}

// TestBulkOfSources: jobs can be named by their sources, and so are the results.
func TestBulkOfSources(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	a, b := s.made(), s.made()
	s.Tell(source.Disabled, b.SourceID, nil)
	none := uuid.NewString()
	status, text := s.Post("/jobs/bulk", `{"operation":"skip-next","source_ids":["`+
		strings.Join([]string{a.SourceID.String(), b.SourceID.String(), none, a.ID.String()}, `","`)+`"]}`)
	want := `{"results":[{"id":"` + a.SourceID.String() + `","ok":true},{"id":"` + b.SourceID.String() +
		`","ok":false,"error":"must not be paused: resume it first"},{"id":"` + none +
		`","ok":false,"error":"there is no such job"},{"id":"` + a.ID.String() +
		`","ok":false,"error":"there is no such job"}]}`
	if status != 200 || text != want {
		t.Errorf("%d %s\nwant %s", status, text, want)
	}
	if j := s.want("POST", "/jobs/"+a.ID.String()+"/resume", ""); !j.SkipNext {
		t.Errorf("%+v", j)
	}
}

// TestBulkOverride: many jobs get the same settings, and days may be named.
func TestBulkOverride(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	a, b := s.made(), s.made()
	ids := `["` + a.ID.String() + `","` + b.ID.String() + `","` + uuid.NewString() + `"]`
	status, text := s.Post("/jobs/bulk", `{"operation":"override","ids":`+ids+`,"override":{"interval_minutes":20,`+
		`"jitter_seconds":90,"max_attempts":2,"crawl_window":{"start_hour":22,"end_hour":6,"days":["mon","Friday",0]}}}`)
	if status != 200 || strings.Count(text, `"ok":true`) != 2 || !strings.Contains(text, "there is no such job") {
		t.Error(status, text)
	}
	for _, made := range []job.Job{a, b} {
		j, err := s.Jobs.Get(t.Context(), made.ID)
		if err != nil || j.IntervalMinutes != 20 || j.JitterSeconds != 90 || j.MaxAttempts != 2 ||
			!slices.Equal(j.CrawlWindow.Days, []int{0, 1, 5}) {
			t.Errorf("%+v, %v", j, err)
		}
	}
}

// TestRefused: bad input of every request is answered by field and rule.
func TestRefused(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	id := s.made().ID.String()
	for _, c := range []struct {
		status                    int
		method, path, body, field string
		code                      string
	}{
		{400, "POST", "/jobs/1/pause", "", "id", "uuid"},
		{400, "POST", "/jobs/" + id + "/pause?hard=1", "", "hard", "parameter_unknown"},
		{400, "POST", "/jobs/" + id + "/pause", `{"why":"a"}`, "why", "field_unknown"},
		{404, "POST", "/jobs/" + uuid.NewString() + "/resume", "", "id", "not_found"},
		{404, "PUT", "/jobs/" + uuid.NewString() + "/override", "{}", "id", "not_found"},
		{404, "DELETE", "/jobs/" + uuid.NewString() + "/override", "", "id", "not_found"},
		{400, "PUT", "/jobs/" + id + "/override", `{"interval":5}`, "interval", "field_unknown"},
		{400, "PUT", "/jobs/" + id + "/override", `{"interval_minutes":0}`, "interval_minutes", "range"},
		{400, "PUT", "/jobs/" + id + "/override", `{"cron":"61 * * * *"}`, "cron", "cron"},
		{400, "PUT", "/jobs/" + id + "/override", `{"cron":"@every 5m"}`, "cron", "cron"},
		{400, "PUT", "/jobs/" + id + "/override", `{"cron":""}`, "cron", "cron"},
		{400, "PUT", "/jobs/" + id + "/override", `{"cron":"* * * * *","time_zone":"Mars"}`, "time_zone", "time_zone"},
		{400, "PUT", "/jobs/" + id + "/override", `[]`, "", "json"},
		{400, "POST", "/jobs/bulk", `{"operation":"delete","ids":["` + id + `"]}`, "operation", "operation_unknown"},
		{400, "POST", "/jobs/bulk", `{"operation":"pause","ids":[]}`, "ids", "length"},
		{400, "POST", "/jobs/bulk", `{"operation":"override","ids":["` + id + `"]}`, "override", "missing"},
		{400, "POST", "/jobs/bulk", `{"operation":"pause","ids":["` + id + `"],"override":{}}`, "override", "conflict"},
		{
			400, "POST", "/jobs/bulk", `{"operation":"override","ids":["` + id + `"],"override":{"cron":"61 * * * *"}}`,
			"override.cron", "cron",
		},
		{
			400, "PUT", "/jobs/" + id + "/override", `{"crawl_window":{"start_hour":1,"end_hour":2,"days":["someday"]}}`,
			"crawl_window.days[0]", "day_unknown",
		},
		{400, "PUT", "/jobs/" + id + "/override", `{"max_attempts":0}`, "max_attempts", "range"},
		{400, "POST", "/jobs/bulk", `{"operation":"pause"}`, "ids", "length"},
		{400, "POST", "/jobs/bulk", `{"operation":"pause","source_ids":[]}`, "source_ids", "length"},
		{
			400, "POST", "/jobs/bulk", `{"operation":"pause","ids":["` + id + `"],"source_ids":["` + id + `"]}`,
			"source_ids", "conflict",
		},
	} {
		status, text := s.Do(c.method, nil, c.path, c.body)
		var p struct {
			Errors []struct{ Field, Code string }
		}
		s.Into(&p, c.status, status, text)
		found := false
		for _, e := range p.Errors {
			found = found || e.Field == c.field && e.Code == c.code
		}
		if !found {
			t.Errorf("%s %s %s: %s, want %s %s", c.method, c.path, c.body, text, c.field, c.code)
		}
	}
}

// TestReconcile: what differs is told, and mended unless the request says dry_run.
func TestReconcile(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	id := uuid.New()
	_, err := s.Store.Pool().Exec(t.Context(), `INSERT INTO millrace.source (id, name, url, rate_limit, max_depth,
		enabled, selectors, priority)
		VALUES ($1, 'a', 'https://example.com', 10, 1, true, '{}', 'normal')`, id)
	if err != nil {
		t.Fatal(err)
	}
	found := `"differences":[{"action":"create_job","source_id":"` + id.String() + `","source_name":"a"}]}`
	for _, c := range [][2]string{
		{`{"dry_run":true}`, `{"dry_run":true,` + found},
		{``, `{"dry_run":false,` + found},
		{`{}`, `{"dry_run":false,"differences":[]}`},
	} {
		if status, text := s.Post("/jobs/reconcile", c[0]); status != 200 || text != c[1] {
			t.Errorf("%s: %d %s, want %s", c[0], status, text, c[1])
		}
	}
}

// TestScope: commands need the scope admin.
func TestScope(t *testing.T) {
	const secret = "a secret of at least thirty-two bytes"
	s := serve(t, auth.New(auth.Config{Secret: secret}))
	if status, _ := s.Post("/jobs/"+uuid.NewString()+"/pause", ""); status != 401 {
		t.Errorf("without a token: %d", status)
	}
}

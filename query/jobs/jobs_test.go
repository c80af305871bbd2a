package jobs

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/jobs/jobstest"
	"github.com/millrace-io/millrace/schemas/source"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// site is a server with the reads on a database of its own.
type site struct{ *jobstest.Site }

func serve(t *testing.T, a *auth.Auth) *site {
	t.Helper()
	t.Parallel()
	s := &site{jobstest.New(t, &engine, jobs.Config{})}
	s.Serve(a, New(s.Sources, s.Jobs, s.Bulk))
	return s
}

func (s *site) made(n int) (ids []uuid.UUID) {
	s.T.Helper()
	for i := range n {
		id, f := uuid.New(), source.New()
		f.Name, f.URL, f.Priority = fmt.Sprintf("Source %d", i), fmt.Sprintf("https://example.com/%d",
			i), source.Priorities[i%4]
		s.Tell(source.Created, id, f)
		ids = append(ids, id)
	}
	return ids
}

func (s *site) exec(sql string, args ...any) {
	s.T.Helper()
	if _, err := s.Jobs.Pool().Exec(s.T.Context(), sql, args...); err != nil {
		s.T.Fatal(err)
	}
}

func get[T any](s *site, path string) (answer T) {
	s.T.Helper()
	status, text := s.Get(path)
	s.Into(&answer, 200, status, text)
	return answer
}

// runs records n runs of a source's job that ended, the latest last.
func (s *site) runs(of uuid.UUID, n int) {
	s.T.Helper()
	for i := range n {
		id, err := uuid.NewV7()
		if err != nil {
			s.T.Fatal(err)
		}
		s.exec(`INSERT INTO millrace.executions (id, job_id, source_id, due_at, status, started_at, completed_at,
			articles_count, duration_seconds)
			SELECT $1, id, source_id, '2026-01-29T10:15:00Z', 'success', now() - interval '13 s', now(), $3, 12.34
			FROM millrace.jobs WHERE source_id = $2`, id, of, i)
	}
}

// TestShapes holds the answers of the contract to their members.
func TestShapes(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	id := s.made(1)[0]
	s.runs(id, 12)
	d, err := s.Jobs.OfSource(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	volatile := regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f-]{27}"|"20[0-9T:.Z+-]+"`)
	const job = `{"id":*,"source_id":*,"source_name":"Source ` +
		`0","url":"https://example.com/0","rate_limit":10,"max_depth":1,"selectors":{},"status":"pending",` +
		`"auto_managed":true,"origin":"event","migrated_at":null,"schedule":{"kind":"interval",` +
		`"time_zone":"UTC"},"interval_minutes":180,"priority":25,"max_concurrent":1,"jitter_seconds":0,` +
		`"crawl_window":null,"overlap_policy":"skip","catch_up_policy":"one",` +
		`"catch_up_window_seconds":86400,"catch_up_cap":10,"catch_up_spread_seconds":0,"max_attempts":1,` +
		`"retry_delay_seconds":60,"backoff_base_minutes":180,"backoff_max_minutes":1440,"interval_type":"hours","override":{},"next_run_at":*,"forced_at":null,` +
		`"skip_next":false,"running":0,"queued":0,"failure_count":0,"last_failure_at":null,` +
		`"backoff_until":null,"version":1,"created_at":*,"updated_at":*`
	const health = `"health":{"status":"healthy","last_run_at":*,"last_run_status":"success","last_24h_runs":12,` +
		`"last_24h_failures":0,"last_24h_articles":66,"success_rate":1,"avg_duration_seconds":12.3}`
	run := func(articles int) string {
		return fmt.Sprintf(`{"id":*,"job_id":*,"source_id":*,"due_at":*,"forced":false,"attempt":1,`+
			`"status":"success","queued_at":*,"started_at":*,"completed_at":*,"articles_count":%d,`+
			`"duration_seconds":12.34,"item_id":null}`, articles)
	}
	recent := run(11)
	for i := 10; i > 1; i-- {
		recent += "," + run(i)
	}
	for path, want := range map[string]string{
		"/jobs/by-source/" + id.String(): `{"job":` + job + `},"source":null,` + health + `,"recent_executions":[` +
			recent + `]}`,
		"/jobs/" + d.ID.String(): job + `,"source":null,` + health + `}`,
		"/jobs":                  `{"items":[` + job + `,"source":null,` + health + `}],"total":1}`,
		"/sources/" + id.String() + "/executions?limit=1": ``,
		"/jobs/stats": `{"total_sources":0,"total_jobs":1,"jobs_by_status":{"failed":0,"orphaned":0,"paused":0,` +
			`"pending":1,"running":0},"health":{"healthy":1,"warning":0,"failed":0,"unknown":0},` +
			`"runs":{"queued":0,"running":0,"oldest_queued_age_s":null},"last_24h":{"total_runs":12,` +
			`"successful_runs":12,"failed_runs":0,"articles_extracted":66,"success_rate":1},` +
			`"throughput":{"articles_per_hour":3,"runs_per_hour":1}}`,
		"/events/log": `{"items":[{"event_id":*,"event_type":"SOURCE_CREATED","source_id":*,"sequence":1,` +
			`"timestamp":*,"outcome":"applied","job_id":*,"detail":"job created","processed_at":*}]}`,
	} {
		status, text := s.Get(path)
		got := volatile.ReplaceAllString(text, "*")
		if status != 200 || want != "" && got != want {
			t.Errorf("%s: %d %s\nwant %s", path, status, got, want)
		}
	}
}

// TestList: each job is on one page, once, and filters select.
func TestList(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	ids := s.made(7)
	s.Tell(source.Disabled, ids[0], nil)
	s.exec(`INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled, selectors, priority)
		VALUES ($1, 'Source 1', 'https://example.com/1', 10, 1, true, '{}', 'normal')`, ids[1])
	names := func(query string) (all []string) {
		t.Helper()
		cursor := ""
		for {
			page := get[JobPage](s, "/jobs?limit=3"+query+cursor)
			for _, d := range page.Items {
				all = append(all, d.SourceName)
				if (d.Source != nil) != (d.SourceID == ids[1]) {
					t.Errorf("%+v", d)
				}
			}
			if page.NextCursor == "" {
				if int(page.Total) != len(all) {
					t.Errorf("%s: %d, total is %d", query, len(all), page.Total)
				}
				return all
			}
			cursor = "&cursor=" + page.NextCursor
		}
	}
	for query, want := range map[string][]string{
		"":                   {"Source 0", "Source 1", "Source 2", "Source 3", "Source 4", "Source 5", "Source 6"},
		"&status=paused":     {"Source 0"},
		"&priority=100":      {"Source 3"},
		"&q=COM/4":           {"Source 4"},
		"&auto_managed=true": {"Source 0", "Source 1", "Source 2", "Source 3", "Source 4", "Source 5", "Source 6"},
		"&status=orphaned":   nil,
		"&has_source=true":   {"Source 1"},
		"&has_source=false":  {"Source 0", "Source 2", "Source 3", "Source 4", "Source 5", "Source 6"},
		"&source_id=" + ids[5].String() + "," + uuid.NewString() + "," + ids[2].String(): {"Source 2", "Source 5"},
	} {
		if got := names(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// TestHealth: the filter by health selects the jobs that say to be of it.
func TestHealth(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	ids := s.made(7)
	for i, c := range []struct {
		status, failed string
		inARow         int
	}{
		{"pending", "false", 0},
		{"pending", "false", 1},
		{"failed", "false", 5},
		{"orphaned", "false", 0},
		{"pending", "articles_count < 1", 0},
		{"pending", "articles_count < 2", 0},
	} {
		s.exec(`UPDATE millrace.job_status SET status = $2, failure_count = $3
			WHERE id = (SELECT id FROM millrace.job_settings WHERE source_id = $1)`, ids[i], c.status, c.inARow)
		s.runs(ids[i], 10)
		s.exec("UPDATE millrace.executions SET status = 'failed' WHERE source_id = $1 AND "+c.failed, ids[i])
	}
	for health, want := range map[string][]string{
		"healthy": {"Source 0", "Source 4"}, "unknown": {"Source 6"}, "warning": {"Source 1", "Source 5"},
		"failed": {"Source 2", "Source 3"},
	} {
		var got []string
		for _, d := range get[JobPage](s, "/jobs?health="+health).Items {
			got = append(got, d.SourceName)
			if d.Health.Status != health {
				t.Errorf("%s is %s, not %s", d.SourceName, d.Health.Status, health)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", health, got, want)
		}
	}
}

// TestPages walks over runs, due times and the log, a few at a time.
func TestPages(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	id := s.made(1)[0]
	d, err := s.Jobs.OfSource(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	s.runs(id, 5)
	due := time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC)
	for i := range 5 {
		s.exec(`INSERT INTO millrace.job_ledger (job_id, due_at, outcome, reason) VALUES ($1, $2, $3, 'why')`, d.ID,
			due.Add(time.Duration(i)*time.Hour), []string{"skipped", "paused"}[i%2])
		s.Tell(source.Disabled, id, nil)
	}
	s.exec("UPDATE millrace.processed_events SET processed_at = date_trunc('hour', processed_at)") // the same of all
	var articles []int
	for cursor := ""; ; {
		page := get[ExecutionPage](s, "/sources/"+id.String()+"/executions?limit=2&status=success"+cursor)
		for _, e := range page.Items {
			articles = append(articles, e.Articles)
		}
		if cursor = "&cursor=" + page.NextCursor; page.NextCursor == "" {
			break
		}
	}
	if !slices.Equal(articles, []int{4, 3, 2, 1, 0}) {
		t.Errorf("runs: %v", articles)
	}
	hours := func(query string) (all []int) {
		for cursor := ""; ; {
			page := get[JobLedgerPage](s, "/jobs/"+d.ID.String()+"/ledger?limit=2"+query+cursor)
			for _, e := range page.Items {
				all = append(all, e.DueAt.Hour())
			}
			if cursor = "&cursor=" + page.NextCursor; page.NextCursor == "" {
				return all
			}
		}
	}
	for query, want := range map[string][]int{
		"": {4, 3, 2, 1, 0}, "&outcome=paused": {3, 1}, "&ran=true": nil, "&ran=false": {4, 3, 2, 1, 0},
		"&from=2026-02-10T01:00:00Z&to=2026-02-10T04:00:00Z": {3, 2, 1},
	} {
		if got := hours(query); !slices.Equal(got, want) {
			t.Errorf("due times%s: %v, want %v", query, got, want)
		}
	}
	seen := map[uuid.UUID]bool{}
	for cursor := ""; ; {
		page := get[EventLogPage](s, "/events/log?limit=2&source_id="+id.String()+cursor)
		for _, e := range page.Items {
			seen[e.EventID] = true
		}
		if cursor = "&cursor=" + page.NextCursor; page.NextCursor == "" {
			break
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d events are in the log", len(seen))
	}
	if page := get[EventLogPage](s, "/events/log?event_type=SOURCE_CREATED&outcome=applied"); len(page.Items) != 1 {
		t.Errorf("%+v", page)
	}
}

// TestRefused: bad input is answered by field and rule, and what is not there by 404.
func TestRefused(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	none := uuid.NewString()
	for path, want := range map[string]string{
		"/jobs?limit=0":     "400 limit",
		"/jobs?cursor=x":    "400 cursor",
		"/jobs?status=done": "400 status",
		"/jobs?health=ill":  "400 health",
		"/jobs?source_id=1": "400 source_id",
		"/jobs?source_id=" + strings.Repeat(none+",", 100) + none: "400 source_id",
		"/jobs/" + none + "/ledger?ran=yes":                       "400 ran",
		"/jobs?priority=101":                                      "400 priority",
		"/jobs?q=%ff":                                             "400 q",
		"/jobs?state=done":                                        "400 state",
		"/jobs/1":                                                 "400 id",
		"/jobs/" + none:                                           "404 id",
		"/jobs/by-source/1":                                       "400 source_id",
		"/jobs/by-source/" + none:                                 "404 source_id",
		"/jobs/" + none + "/ledger":                               "404 id",
		"/jobs/" + none + "/ledger?from=yesterday":                "400 from",
		"/jobs/" + none + "/ledger?from=2026-02-11T00:00:00Z&to=2026-02-10T00:00:00Z": "400 to",
		"/jobs/" + none + "/ledger?outcome=done":                                      "400 outcome",
		"/sources/" + none + "/executions":                                            "404 source_id",
		"/sources/" + none + "/executions?cursor=AAAA":                                "400 cursor",
		"/events/log?source_id=1":                                                     "400 source_id",
		"/events/log?cursor=a.b":                                                      "400 cursor",
	} {
		status, text := s.Get(path)
		var p struct{ Errors []struct{ Field string } }
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(text, err)
		}
		got := fmt.Sprint(status)
		if len(p.Errors) > 0 {
			got += " " + p.Errors[0].Field
		}
		if got != want {
			t.Errorf("%s: %s %s, want %s", path, got, text, want)
		}
	}
}

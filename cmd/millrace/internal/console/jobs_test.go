package console

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// TestJobsAudit: what is printed of an audit, and that a fault fails the command.
func TestJobsAudit(t *testing.T) {
	sound := `{"from":"2026-02-10T00:00:00Z","to":"2026-02-11T00:00:00Z","jobs":2,"due":48,"outcomes":{"ran":40,"skipped":7},
		"pending":1,"forced":1,"missed":0,"doubled":0,"findings":[]}`
	s := serve(t, map[string]any{"/jobs/audit": sound})
	out, err := s.run(t, "jobs audit --from=2026-02-10T00:00:00Z --to=2026-02-11T00:00:00Z")
	if err != nil {
		t.Error(err)
	}
	mustHave(t, out, "48 due times of 2 jobs, from 2026-02-10T00:00:00Z to 2026-02-11T00:00:00Z",
		"ran 40", "not yet decided 1", "1 run beside, which somebody asked for", "0 missed, 0 doubled")
	if last := s.asked[len(s.asked)-1]; last != "GET /jobs/audit from=2026-02-10T00%3A00%3A00Z&to=2026-02-11T00%3A00%3A00Z" {
		t.Error(last)
	}
	missed := `"missed":1,"doubled":0,"findings":[
		{"kind":"missed","job_id":"a","due_at":"2026-02-10T07:00:00Z","why":"the ledger has no row"}]`
	s.set("/jobs/audit", strings.Replace(sound, `"missed":0,"doubled":0,"findings":[]`, missed, 1))
	for _, line := range []string{"jobs audit", "jobs audit --json"} {
		out, err = s.run(t, line)
		if !errors.As(err, new(*PartialError)) || !strings.Contains(out, "the ledger has no row") {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
}

// TestJobsReconcile: what is printed of differences, dry and not.
func TestJobsReconcile(t *testing.T) {
	s := serve(t, map[string]any{"/jobs/reconcile": `{"dry_run":true,"differences":[
		{"action":"create_job","source_id":"01a206c7","source_name":"Example\u001b News"}]}`})
	for line, want := range map[string]string{
		"jobs reconcile --dry-run": "1 difference to be mended", "jobs reconcile": "1 difference mended",
		"jobs reconcile --json": `"create_job"`,
	} {
		out, err := s.run(t, line)
		if err != nil || !strings.Contains(out, want) || !strings.Contains(out, "create_job") ||
			strings.Contains(out, "\x1b") {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
}

// TestJobsMigrate: what is printed of a migration, dry and not.
func TestJobsMigrate(t *testing.T) {
	s := serve(t, map[string]any{"/jobs/migrate": `{"dry_run":true,"jobs":[
		{"action":"migrate_job","job_id":"a","source_id":"b","source_name":"Example\u001b News",
		"changes":["interval_minutes: 7 → 60"]},
		{"action":"create_job","source_id":"c","source_name":"Other","changes":[]}]}`})
	for line, want := range map[string]string{
		"jobs migrate --dry-run": "1 job to be migrated, 1 to be made, 0 left without a source",
		"jobs migrate":           "1 job migrated, 1 made, 0 left without a source",
		"jobs migrate --json":    `"migrate_job"`,
	} {
		out, err := s.run(t, line)
		if err != nil || !strings.Contains(out, want) || !strings.Contains(out, "interval_minutes: 7 → 60") ||
			strings.Contains(out, "\x1b") {
			t.Errorf("%s: %v: %s", line, err, out)
		}
		asked := "POST /jobs/migrate dry_run=" + strconv.FormatBool(strings.Contains(line, "--dry-run"))
		if last := s.asked[len(s.asked)-1]; last != asked {
			t.Errorf("%s asks %s", line, last)
		}
	}
}

// TestListJobs: the bare command lists, with filters.
func TestListJobs(t *testing.T) {
	s := serve(t, map[string]any{"GET /jobs": `{"items":[
		{"id":"01a206c7-0000-7000-8000-000000000001","source_name":"Example","url":"https://example.com/","status":"running",
			"next_run_at":"2026-02-10T07:00:00Z","health":{"status":"healthy","last_run_at":null}}]}`})
	out, err := s.run(t, "jobs --status=running --health=healthy")
	if err != nil {
		t.Error(err)
	}
	mustHave(t, out, "JOB SOURCE STATUS HEALTH LAST RUN NEXT RUN URL", "01a206c7-0000-7000-8000-000000000001 Example "+
		"running healthy - 2026-02-10T07:00:00Z https://example.com/")
	if last := s.asked[len(s.asked)-1]; last != "GET /jobs health=healthy&limit=100&status=running" {
		t.Error(last)
	}
	s.set("GET /jobs", `{"items":[]}`)
	if out, err = s.run(t, "jobs"); err != nil || out != "no jobs\n" {
		t.Errorf("%v: %s", err, out)
	}
}

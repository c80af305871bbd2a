package console

import (
	"errors"
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
		"ran             40", "not yet decided 1", "1 run beside, which somebody asked for", "0 missed, 0 doubled")
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

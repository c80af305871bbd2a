package console

import (
	"strings"
	"testing"
)

// TestBatchModes: modes are shown without flags, and changed with them.
func TestBatchModes(t *testing.T) {
	s := serve(t, map[string]any{"/batches/modes": `{"new_mode":true,"legacy_mode":false,"new_mode_share":0.25}`})
	for line, want := range map[string]string{
		"batches":                    "GET /batches/modes",
		"batches modes":              "GET /batches/modes",
		"batches modes --legacy=off": `PUT /batches/modes`,
		"batches modes --new=on --share=0 --json": `PUT /batches/modes`,
	} {
		out, err := s.run(t, line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if got := s.asked[len(s.asked)-1]; !strings.HasPrefix(got, want) {
			t.Errorf("%s asks %s", line, got)
		}
		if !strings.Contains(line, "json") {
			mustHave(t, out, "data.collected events: taken, of 25 % of the jobs", "legacy messages (data_ref): waiting")
		}
	}
	if _, err := s.run(t, "batches modes --share=2"); err == nil {
		t.Error("a share of 2 is taken")
	}
	share := 0.5
	change := (&BatchesModesCmd{New: "off", Share: &share}).change()
	if len(change) != 2 || change["new_mode"] != false || change["new_mode_share"] != 0.5 {
		t.Errorf("%v", change)
	}
}

// TestReclassify: what has changed, or would, is printed, and nothing else is asked.
func TestReclassify(t *testing.T) {
	s := serve(t, map[string]any{"/batches/reclassify": `{"dry_run":true,"projects":{"count":1,"rows":40,"changes":[
		{"of":"p-b-0","from":"","to":"p","rows":40}]},"categories":{"count":0,"rows":0,"changes":[]}}`})
	out, err := s.run(t, "batches reclassify --dry-run")
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, out, "job p-b-0: project p, was none (40 outcomes)", "project of 1 job to be changed, with 40 outcomes",
		"category of 0 error codes to be changed, with 0 outcomes")
	if got := s.asked[len(s.asked)-1]; !strings.HasPrefix(got, "POST /batches/reclassify") {
		t.Errorf("it asks %s", got)
	}
}

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

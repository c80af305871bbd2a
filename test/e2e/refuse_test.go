package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// problem is the part of a problem document that tests look at.
type problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Errors []struct{ Field, Code, Rule string }
}

// valid is the JSON of a valid event, with some fields replaced, or left out
// where their value is nil.
func valid(fields map[string]any) string {
	e := map[string]any{
		"article_url": "https://example.com/article-123", "source_name": "example_com", "stage": "crawled",
		"occurred_at": time.Now().UTC().Format(time.RFC3339Nano), "service_name": "e2e",
	}
	for name, value := range fields {
		if e[name] = value; value == nil {
			delete(e, name)
		}
	}
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func mustRefuse(t testing.TB, status int, body []byte, field, code string) {
	t.Helper()
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		t.Errorf("status %d and no problem document: %v: %.300s", status, err, body)
		return
	}
	if status < 400 || status > 499 || p.Status != status || len(p.Errors) == 0 {
		t.Errorf("status %d: %.300s, want a problem of the 400 class that names a field and a rule", status, body)
		return
	}
	if e := p.Errors[0]; e.Field != field || (code != "" && e.Code != code) || e.Rule == "" {
		t.Errorf("the problem names field %q, code %q and rule %q, want %q, %q and a rule", e.Field, e.Code,
			e.Rule, field, code)
	}
}

// badEvents are bodies that break a rule, and the field and code of the answer.
func badEvents() map[string][3]string {
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339Nano) }
	event := func(field string, value any) string { return valid(map[string]any{field: value}) }
	return map[string][3]string{
		"unknown stage":     {event("stage", "printed"), "stage", "stage_unknown"},
		"no article_url":    {event("article_url", nil), "article_url", "missing"},
		"no source_name":    {event("source_name", nil), "source_name", "missing"},
		"no stage":          {event("stage", nil), "stage", "missing"},
		"no occurred_at":    {event("occurred_at", nil), "occurred_at", "missing"},
		"no service_name":   {event("service_name", nil), "service_name", "missing"},
		"empty source_name": {event("source_name", ""), "source_name", "missing"},
		"not UTC": {
			event("occurred_at", time.Now().In(time.FixedZone("", 3600)).Format(time.RFC3339)),
			"occurred_at", "time_not_utc",
		},
		"no time":   {event("occurred_at", "yesterday"), "occurred_at", "time_format"},
		"future":    {event("occurred_at", ago(-time.Hour)), "occurred_at", "time_future"},
		"day-old":   {event("occurred_at", ago(24*time.Hour+time.Minute)), "occurred_at", "time_too_old"},
		"no scheme": {event("article_url", "example.com/a"), "article_url", "url"},
		"3,000 characters": {
			event("article_url", "https://example.com/"+strings.Repeat("a", 2980)), "article_url",
			"length",
		},
		"metadata a list":   {event("metadata", []int{1}), "metadata", "metadata_object"},
		"metadata a string": {event("metadata", "{}"), "metadata", "metadata_object"},
		"metadata too big": {
			event("metadata", map[string]string{"a": strings.Repeat("a", 70_000)}), "metadata",
			"metadata_size",
		},
		"invalid UTF-8": {strings.Replace(valid(nil), "example_com", "example\xff\xfe", 1), "", "utf8"},
		"broken JSON":   {valid(nil)[:40], "", "json"},
		"no JSON":       {"crawled", "", "json"},
		"empty":         {"", "", "json"},
		"a list":        {"[" + valid(nil) + "]", "", "json"},
	}
}

// TestBadInput holds the promise that bad input gets a problem document of the
// 400 class that names field and rule, and leaves nothing behind.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := up(t)
	for name, bad := range badEvents() {
		t.Run(name, func(t *testing.T) {
			status, header, body := s.post("/events", "application/json", bad[0])
			mustRefuse(t, status, body, bad[1], bad[2])
			if status != http.StatusBadRequest || header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("status %d and type %s", status, header.Get("Content-Type"))
			}
		})
	}
	t.Run("20 MB", func(t *testing.T) {
		status, _, body := s.post("/events", "application/json", strings.Repeat(" ", 20<<20))
		mustRefuse(t, status, body, "", "body_size")
		if status != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d, want 413", status)
		}
	})
	for target, field := range badQueries() {
		t.Run("GET "+target, func(t *testing.T) {
			status, _, body := s.fetch(target)
			mustRefuse(t, status, body, field, "")
			if status != http.StatusBadRequest {
				t.Errorf("status %d, want 400", status)
			}
		})
	}
	if last := s.caughtUp(); last != 0 {
		t.Errorf("the stream has %d messages, want none", last)
	}
}

// badQueries are targets of GET, and the parameter that each has wrong.
func badQueries() map[string]string {
	return map[string]string{
		"/funnel?tz=Mars/Olympus":                                   "tz",
		"/funnel?period=fortnight":                                  "period",
		"/funnel?from=yesterday":                                    "from",
		"/funnel?source=" + url.QueryEscape("a\x00b"):               "source",
		"/funnel?uniques=about":                                     "uniques",
		"/events?cursor=nonsense":                                   "cursor",
		"/events?stage=printed":                                     "stage",
		"/events?url_hash=12":                                       "url_hash",
		"/events?limit=0":                                           "limit",
		"/events?from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z": "to",
		"/articles/12/journey":                                      "url_hash",
	}
}

// TestPartlyBadBatch holds the promise that valid items of a batch are taken
// even where others are not, and that each of those is named.
func TestPartlyBadBatch(t *testing.T) {
	t.Parallel()
	s := up(t)
	one, bad := valid(nil), valid(map[string]any{"stage": "printed"})
	body := `{"events":[` + bad + "," + one + "," + one + "," + bad + `]}`
	status, _, answer := s.post("/events/batch", "application/json", body)
	var result struct {
		Accepted, Duplicates int
		Rejected             []struct {
			Index int
			Error struct{ Field, Code string }
		}
	}
	if err := json.Unmarshal(answer, &result); err != nil || status != http.StatusCreated {
		t.Fatalf("status %d: %s", status, answer)
	}
	if result.Accepted != 1 || result.Duplicates != 1 || len(result.Rejected) != 2 ||
		result.Rejected[1].Index != 3 || result.Rejected[1].Error.Field != "stage" {
		t.Errorf("result: %s", answer)
	}
	if status, _, _ := s.post("/events/batch", "application/x-ndjson", one+"\n"+one+"\n"); status != http.StatusOK {
		t.Errorf("status %d for lines that were sent before, want 200", status)
	}
	s.caughtUp()
	if n := get[funnel](s, "/funnel", "period=24h").Stages[0].Events; n != 1 {
		t.Errorf("%d events are counted, want 1", n)
	}
}

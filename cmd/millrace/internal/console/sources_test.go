package console

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSources: what is sent of a list and under which type, what is printed, and that
// refused lines fail the command.
func TestSources(t *testing.T) {
	kinds := []string{}
	answer := `{"created":2,"updated":1,"unchanged":0,"repeated":0,"refused":0,"errors":[],"ignored_columns":[]}`
	s := serve(t, map[string]any{
		"POST /sources/import": func(w http.ResponseWriter, r *http.Request) {
			kinds = append(kinds, r.Header.Get("Content-Type"))
			_, _ = w.Write([]byte(answer))
		},
		"GET /sources/export": "the list",
	})
	file := filepath.Join(t.TempDir(), "list.OPML")
	if err := os.WriteFile(file, []byte("<opml/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"sources import " + file, "sources import --format=csv " + file} {
		out, err := s.run(t, line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		mustHave(t, out, "2 created, 1 updated, 0 unchanged, 0 repeated in the list, 0 refused")
	}
	if !slices.Equal(kinds, []string{"text/x-opml", "text/csv"}) ||
		!slices.Equal(s.changes(), []string{"POST /sources/import <opml/>", "POST /sources/import <opml/>"}) {
		t.Errorf("%v, %v", kinds, s.changes())
	}
	answer = `{"refused":2,"ignored_columns":["kind"],"errors":[
		{"line":3,"field":"url","rule":"must be one"},{"line":4,"field":"","rule":"must be\u001b JSON"}]}`
	out, err := s.run(t, "sources import --format=jsonl -")
	if err == nil || !strings.Contains(err.Error(), "2 lines were refused") {
		t.Error(err)
	}
	mustHave(t, out, "line 3: url: must be one", `line 4: must be\x1b JSON`,
		"columns that are no fields of a source: kind")
	out, err = s.run(t, "sources import --json --format=jsonl -")
	if err == nil || !strings.Contains(out, `"refused": 2`) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := s.run(t, "sources export --format=csv --search=a --enabled=true"); out != "the list" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := s.run(t, "sources import - "); err == nil || !strings.Contains(err.Error(), "--format") {
		t.Error(err)
	}
	if last := s.asked[len(s.asked)-1]; last != "GET /sources/export enabled=true&format=csv&q=a" {
		t.Error(last)
	}
}

// TestListSources: the bare command lists, with filters, and the next page stands in
// the columns of the one before.
func TestListSources(t *testing.T) {
	const row = `{"id":"01a206c7-0000-7000-8000-00000000000%d","name":"%s","url":"https://example.com/","priority":"high",
		"enabled":%t,"updated_at":"2026-02-10T00:00:00Z"}`
	s := serve(t, map[string]any{"GET /sources": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			fmt.Fprintf(w, `{"items":[`+row+`],"next_cursor":"more"}`, 1, `Example\u001b News`, true)
			return
		}
		fmt.Fprintf(w, `{"items":[`+row+`]}`, 2, "Other", false)
	}})
	out, err := s.run(t, "sources --limit=0 --search=a --priority=high")
	if err != nil || strings.Contains(out, "\x1b") {
		t.Errorf("%v: %s", err, out)
	}
	mustHave(t, out, "SOURCE NAME PRIORITY ENABLED CHANGED URL",
		"01a206c7-0000-7000-8000-000000000002 Other high no 2026-02-10T00:00:00Z https://example.com/")
	if last := s.asked[len(s.asked)-1]; last != "GET /sources cursor=more&limit=500&priority=high&q=a" {
		t.Error(last)
	}
	if out, err = s.run(t, "sources list --json --limit=1"); err != nil || !strings.HasPrefix(out, `{"id":`) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err = s.run(t, "sources --limit=1"); err != nil || !strings.HasSuffix(out, "1 sources; there are more (--limit)\n") {
		t.Errorf("%v: %s", err, out)
	}
}

package pipeline

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/event"
)

// TestRequests: what is served is described, and what is wrong with a request is
// told.
func TestRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	t.Run("description", func(t *testing.T) { testDescription(t, r) })
	t.Run("one fault", func(t *testing.T) { testBadRequests(t, r) })
	t.Run("all faults", func(t *testing.T) { testAllFaults(t, r) })
}

// testAllFaults: everything that is wrong with a request is told at once.
func testAllFaults(t *testing.T, r *rig) {
	for target, want := range map[string]string{
		"/funnel?perod=7d&tz=Mars&uniques=some&source=%00": "perod source tz uniques",
		"/funnel?from=yesterday&to=2026-01-01":             "from to",
		"/funnel?to=2026-01-01T00:00:00Z":                  "from",
		"/stats?period=1h&limit=0&limits=5":                "limit limits period",
		"/stats?access_token=secret":                       "access_token",
		"/funnel/sources?tz=Mars&limit=1001&source=a":      "limit source tz",
		"/events?stage=crawl&url_hash=1&from=x&to=y&limit=x&cursor=?&trace_id=%01": "" +
			"cursor from limit stage to trace_id url_hash",
		"/articles?stuck_after=cooked&older_than=soon&within=never&tz=Mars": "older_than stuck_after within",
		"/articles?sort=slowest&from_stage=a&to_stage=b&tz=Mars&x=1":        "from_stage to_stage tz x",
		"/stats/drift?reference_from=x&current=%01&tz=Mars": "" +
			"current current_from current_to reference_from reference_to tz",
		"/articles/abc/journey?x=1": "url_hash x",
	} {
		path, text, _ := strings.Cut(target, "?")
		query, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		var p httpapi.Problem
		status := r.For(t).Get(path, query, &p)
		var fields []string
		for _, e := range p.Errors {
			fields = append(fields, e.Field)
			if e.Code == "" || e.Rule == "" {
				t.Errorf("%s: %+v", target, e)
			}
		}
		slices.Sort(fields)
		if status != http.StatusBadRequest || strings.Join(fields, " ") != want {
			t.Errorf("%s: %d %+v, want faults of %s", target, status, p, want)
		}
	}
	var p httpapi.Problem
	r.For(t).Get("/events", viewtest.Values("stage", "crawl"), &p)
	if len(p.Errors) != 1 || !strings.HasSuffix(p.Errors[0].Rule, "the nearest is crawled") {
		t.Errorf("a misspelt stage: %+v", p)
	}
}

// TestUnknownSource: an answer about a source that has sent nothing says so, and
// names the nearest that has; one that has sent something at another time is
// known.
func TestUnknownSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	at := r.now().Add(-3 * time.Hour)
	r.write(
		event.Event{
			ArticleURL: "https://example.com/1", SourceName: "example_com", Stage: "crawled",
			OccurredAt: at, ServiceName: "test",
		},
		event.Event{
			ArticleURL: "https://example.com/2", SourceName: "news_site", Stage: "crawled",
			OccurredAt: at, ServiceName: "test",
		},
	)
	later := r.now().Add(-time.Hour).Format(time.RFC3339)
	for _, path := range []string{"/funnel", "/stats", "/events", "/stats/drift", "/articles"} {
		ask := func(source string) (notes []httpapi.FieldError) {
			query := viewtest.Values("source", source)
			switch path {
			case "/articles":
				query.Set("stuck_after", "indexed")
			default:
				query.Set("from", later)
			}
			var answer struct{ Notes []httpapi.FieldError }
			r.Must(path, query, &answer)
			return answer.Notes
		}
		notes := ask("Exampel_com")
		if len(notes) != 1 || notes[0].Field != "source" || notes[0].Code != "source_unknown" ||
			!strings.HasSuffix(notes[0].Rule, "is example_com") {
			t.Errorf("%s of a misspelt source: %+v", path, notes)
		}
		for _, source := range []string{"", "news_site"} {
			if notes := ask(source); notes != nil {
				t.Errorf("%s of the source %q: %+v", path, source, notes)
			}
		}
	}
}

// TestStatsLimit: lists by name have the largest first, and as many as are asked
// for; what there is in all is told.
func TestStatsLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	var events []event.Event
	for source, n := range []int{1, 4, 2, 3} {
		for i := range n {
			events = append(events, event.Event{
				ArticleURL: fmt.Sprintf("https://example.com/%d", i), SourceName: fmt.Sprint("source-", source),
				Stage: "crawled", OccurredAt: r.now().Add(-time.Hour), ServiceName: fmt.Sprint("test-", source),
			})
		}
	}
	r.write(events...)
	for query, want := range map[string]struct{ sources, cut string }{
		"":         {`{"source-1":4,"source-3":3,"source-2":2,"source-0":1}`, ""},
		"?limit=4": {`{"source-1":4,"source-3":3,"source-2":2,"source-0":1}`, ""},
		"?limit=2": {`{"source-1":4,"source-3":3}`, `"cut":["by_source"]`},
		"?limit=1": {`{"source-1":4}`, `"cut":["by_source"]`},
	} {
		resp, err := http.Get(r.URL + "/api/v1/stats" + query)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), `"by_source":`+want.sources) || !strings.Contains(string(body), want.cut) ||
			(want.cut == "" && strings.Contains(string(body), `"cut"`)) {
			t.Errorf("%s: %s", query, body)
		}
		var got Stats
		err = json.Unmarshal(body, &got)
		if err != nil || got.Totals.BySource != (Total{Names: 4, Events: 10}) || got.Crawl.Total != 10 {
			t.Errorf("%s: %v: %s", query, err, body)
		}
	}
	var sources Sources
	r.Must("/funnel/sources", viewtest.Values("limit", "3"), &sources)
	var largest []string
	for _, source := range sources.Sources {
		largest = append(largest, fmt.Sprint(source.Name, " ", source.Count))
	}
	if !slices.Equal(largest, []string{"source-1 4", "source-3 3", "source-2 2"}) || sources.Total != 4 {
		t.Errorf("sources: %+v", sources)
	}
}

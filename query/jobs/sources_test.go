package jobs

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/source"
)

func (s *site) create(draft string) source.CrawlSource {
	s.T.Helper()
	made, err := s.Sources.Create(s.T.Context(), source.ReadDraft([]byte(draft)).Over(source.New()))
	if err != nil {
		s.T.Fatal(err)
	}
	return made
}

// TestPagesOfSources: the pages of a list have each source once, in the order in which they
// were made, whatever is added and deleted between them.
func TestPagesOfSources(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	if status, text := s.Get("/sources"); status != 200 || text != `{"items":[],"total":0}` {
		t.Errorf("no sources: %d %s", status, text)
	}
	var want, got []string
	for i := range 10 {
		want = append(want, s.create(fmt.Sprintf(`{"name":"n%d","url":"https://e.com","enabled":%v}`, i,
			i%5 != 0)).Name)
	}
	for cursor := ""; ; {
		var page CrawlSourcePage
		status, text := s.Get("/sources?limit=3&cursor=" + cursor)
		s.Into(&page, 200, status, text)
		for _, v := range page.Items {
			got = append(got, v.Name)
		}
		if page.Total != 10 {
			t.Errorf("total is %d", page.Total)
		}
		last := page.Items[len(page.Items)-1]
		if err := s.Sources.Delete(t.Context(), last.ID, "why"); err != nil { // the place is kept all the same
			t.Fatal(err)
		}
		s.create(`{"name":"late","url":"https://e.com"}`)
		if cursor = page.NextCursor; cursor == "" || len(got) >= 10 {
			break
		}
	}
	if got = slices.DeleteFunc(got, func(name string) bool { return name == "late" }); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestFiltersOfSources: filters are read from the address, and what is wrong with one is said.
func TestFiltersOfSources(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	made := s.create(`{"name":"Ängel","url":"https://example.com/100%","priority":"high","enabled":false}`)
	other := s.create(`{"name":"other","url":"https://e.com"}`)
	for _, sql := range []string{
		`INSERT INTO millrace.job_settings (id, source_id, source_name, url, rate_limit, max_depth, selectors,
			auto_managed, origin, schedule_kind, interval_minutes, interval_type, max_concurrent)
		VALUES ($1, $1, 'other', 'https://e.com', 10, 1, '{}', true, 'event', 'interval', 60, 'hours', 1)`,
		`INSERT INTO millrace.job_status (id, status, paused_by, next_run_at, priority, failure_count)
		VALUES ($1, 'paused', 'user', now(), 50, 2)`,
	} {
		if _, err := s.Store.Pool().Exec(t.Context(), sql, other.ID); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]int64{
		"q=" + url.QueryEscape("EXAMPLE.com/100%"): 1, "q=ther": 1, "q=none": 0, "enabled=false": 1, "enabled=true": 1,
		"priority=high": 1,
		"priority=low":  0, "enabled=false&priority=high&q=ngel": 1, "": 2,
		"job_status=paused": 1, "job_status=pending": 0, "health=warning": 1, "health=healthy": 0,
		"job_status=paused&health=failed": 0, "job_status=paused&enabled=false": 0,
	} {
		var page CrawlSourcePage
		status, text := s.Get("/sources?" + query)
		if s.Into(&page, 200, status, text); page.Total != want || int64(len(page.Items)) != want {
			t.Errorf("%s: %s, want %d", query, text, want)
		}
	}
	var one source.CrawlSource
	status, text := s.Get("/sources/" + made.ID.String())
	if s.Into(&one, 200, status, text); one.Name != "Ängel" || one.Enabled || one.Priority != "high" {
		t.Errorf("%s", text)
	}
	if status, text := s.Get("/sources/" + uuid.NewString()); status != 404 || !strings.Contains(text, `"field":"id"`) {
		t.Errorf("%d %s", status, text)
	}
	for path, field := range map[string]string{
		"/sources?enabled=yes": "enabled", "/sources?priority=urgent": "priority",
		"/sources?job_status=done": "job_status", "/sources?health=ill": "health", "/sources?limit=0": "limit",
		"/sources?limit=1001": "limit",
		"/sources?cursor=x":   "cursor", "/sources?cursor=" + uuid.NewString(): "cursor", "/sources?q=%00": "q",
		"/sources?q=%ff": "q",
		"/sources?q=" + strings.Repeat("a", 2049): "q", "/sources?name=a": "name", "/sources/1": "id",
		"/sources/1?a=b": "a",
	} {
		if status, text := s.Get(path); status != 400 || !strings.Contains(text, `"errors":[{"field":"`+field+`"`) {
			t.Errorf("%.60s: %d %s", path, status, text)
		}
	}
}

// TestScope: reading needs the scope read.
func TestScope(t *testing.T) {
	s := serve(t, auth.New(auth.Config{Secret: trackingtest.Secret}))
	for scope, want := range map[auth.Scope]int{"": 401, auth.Work: 403, auth.Read: 200} {
		s.Login("ann", scope)
		if status, text := s.Get("/sources"); status != want {
			t.Errorf("%q: %d %s, want %d", scope, status, text, want)
		}
	}
}

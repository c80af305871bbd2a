package jobs

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sources"
)

// importList posts a list and returns what became of it.
func (s *site) importList(kind, list string) (got ImportedSources) {
	s.T.Helper()
	status, text := s.Do(http.MethodPost, http.Header{"Content-Type": {kind}}, "/sources/import", list)
	s.Into(&got, 200, status, text)
	return got
}

// events is how many events wait to be published.
func (s *site) events() (n int) {
	s.T.Helper()
	if err := s.Sources.Pool().QueryRow(s.T.Context(), "SELECT count(*) FROM millrace.message_outbox").Scan(&n); err != nil {
		s.T.Fatal(err)
	}
	return n
}

// TestImport: a list goes in but for its bad lines, each source with one event; the
// same list again changes nothing, and another one what it says.
func TestImport(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	var list strings.Builder
	list.WriteString("url,name,kind\n")
	for i := range 1203 {
		fmt.Fprintf(&list, "https://example.com/%d,,rss\n", i)
	}
	list.WriteString("https://example.com/7,repeated,rss\nopencv.org/feed,,rss\n")
	want := ImportedSources{
		Imported: sources.Imported{Created: 1203}, Repeated: 1, Refused: 1, IgnoredColumns: []string{"kind"},
		Errors: []RefusedLine{{1206, httpapi.FieldError{
			Field: "url", Code: "url", Rule: "must be an absolute http or https URL with a host, such as " +
				"https://example.com/feed",
		}}},
	}
	if got := s.importList("text/csv", list.String()); !reflect.DeepEqual(got, want) || s.events() != 1203 {
		t.Errorf("%+v, %d events", got, s.events())
	}
	want.Imported = sources.Imported{Unchanged: 1203}
	if got := s.importList("text/csv; charset=utf-8", list.String()); !reflect.DeepEqual(got, want) ||
		s.events() != 1203 {
		t.Errorf("again: %+v, %d events", got, s.events())
	}
	lines := `{"url":"https://example.com/1","priority":"high"}` + "\n" +
		`{"url":"https://example.com/new","name":"new"}` + "\n" +
		`{"url":"https://example.com/2"}` + "\n"
	got := s.importList("application/x-ndjson", lines)
	if got.Imported != (sources.Imported{Created: 1, Updated: 1, Unchanged: 1}) || s.events() != 1205 {
		t.Errorf("%+v, %d events", got, s.events())
	}
	// A source that was there before with a name keeps it if the list has none.
	named, err := s.Sources.List(t.Context(), sources.Filter{Text: "https://example.com/new"}, [16]byte{}, 1)
	if err != nil || len(named) != 1 {
		t.Fatal(named, err)
	}
	s.importList("text/x-opml", `<opml><outline xmlUrl="https://example.com/new" max_depth="4"/></opml>`)
	if now, err := s.Sources.Get(t.Context(), named[0].ID); err != nil || now.Name != "new" || now.MaxDepth != 4 {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestImportRefused: what cannot be read changes nothing.
func TestImportRefused(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	for _, c := range []struct {
		kind, list string
		status     int
	}{
		{"text/csv", "name,link\na,https://a.example\n", 400},
		{"text/xml", `<opml><outline xmlUrl="https://a.example"/>`, 400},
		{"text/plain", "url\nhttps://a.example\n", 415},
		{"", "url\nhttps://a.example\n", 415},
		{"text/csv", "url\n" + strings.Repeat("a", maxImport), 413},
	} {
		status, text := s.Do(http.MethodPost, http.Header{"Content-Type": {c.kind}}, "/sources/import", c.list)
		if status != c.status || !strings.Contains(text, `"rule":`) {
			t.Errorf("%s %.60q: %d %s, want %d", c.kind, c.list, status, text, c.status)
		}
	}
	if n, err := s.Sources.Count(t.Context(), sources.Filter{}); n != 0 || err != nil {
		t.Errorf("%d sources, %v", n, err)
	}
}

// TestImportOfJobs: a list says how the jobs of its sources run. The same list again changes
// nothing.
func TestImportOfJobs(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	const list = "url,job_cron,job_jitter_seconds\nhttps://example.com/1,0 6 * * mon,90\nhttps://example.com/2,,\n" +
		"https://example.com/3,0 25 * * *,\n"
	for _, want := range []sources.Imported{{Created: 2}, {Unchanged: 2}} {
		got := s.importList("text/csv", list)
		if got.Imported != want || got.Refused != 1 || got.Errors[0].Line != 4 || got.Errors[0].Field != "job_cron" ||
			len(got.IgnoredColumns) > 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	var settings string
	if err := s.Sources.Pool().QueryRow(t.Context(), `SELECT string_agg(settings::text, ', ')
		FROM millrace.pending_override`).Scan(&settings); err != nil || settings != `{"cron": "0 6 * * mon", "jitter_seconds": 90}` {
		t.Errorf("%s, %v", settings, err)
	}
	got := s.importList("application/x-ndjson", `{"url":"https://example.com/1","job":{"jitter_seconds":null}}`+"\n")
	if got.Updated != 1 || s.events() != 2 {
		t.Errorf("%+v, %d events", got, s.events())
	}
}

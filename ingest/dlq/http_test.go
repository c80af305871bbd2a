package dlq

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
	"github.com/millrace-io/millrace/internal/sampler/samplertest"
	"github.com/millrace-io/millrace/schemas/stream"
)

type site struct {
	fixture
	url, token string
	contract   *contracttest.Contract // what the server says that it answers
}

func serve(t *testing.T, cfg auth.Config) *site {
	t.Helper()
	f := start(t)
	registry := prometheus.NewRegistry()
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: f.log, Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	f.Register(endpoint.API{Server: srv, Auth: auth.New(cfg), Log: f.log})
	server := httptest.NewServer(srv.Handler())
	t.Cleanup(server.Close)
	return &site{fixture: f, url: server.URL, contract: contracttest.Of(t, srv.Handler())}
}

// ask sends a request, under the API's base unless the path is of the root,
// and decodes its answer.
func (s *site) ask(method, path, contentType, body string, into any) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.contract.Check(method, r.URL, resp, text); err != nil {
		s.t.Error(err)
	}
	if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
		s.t.Errorf("%s %s: %s is %s", method, path, text, resp.Header.Get("Content-Type"))
	}
	if err := json.Unmarshal(text, into); err != nil {
		s.t.Fatalf("%s %s: %.300s: %v", method, path, text, err)
	}
	return resp.StatusCode
}

const (
	api      = "/api/v1"
	jsonType = "application/json"
)

func TestHTTP(t *testing.T) {
	s := serve(t, auth.Config{})
	for i := range 5 {
		s.put(dead{
			seq: uint64(i + 1), subject: "events.crawled.zz", code: "subject",
			body: eventText(i, "crawled", time.Minute, "{}"),
		})
	}
	s.put(dead{seq: 6, subject: "events.crawled.zz", code: "json", body: "broken"})
	var page LetterPage
	if status := s.ask("GET",
		api+"/dlq?subject=events.%3E&code=subject&limit=2&stream=EVENTS&since=2020-01-01T00:00:00Z", "", "",
		&page); status != 200 ||
		len(page.Letters) != 2 || page.Letters[0].ID != 5 || page.NextCursor != 4 {
		t.Errorf("%d %+v", status, page)
	}
	page = LetterPage{}
	if status := s.ask("GET", api+"/dlq?order=oldest&cursor=4", "", "", &page); status != 200 ||
		len(page.Letters) != 2 || page.Letters[0].ID != 5 || page.NextCursor != 0 {
		t.Errorf("%d %+v", status, page)
	}
	for _, path := range []string{"/dlq/6", "/dlq/EVENTS/6", "/dlq/EVENTS%2F6"} {
		var full LetterDetail
		if status := s.ask("GET", api+path, "", "", &full); status != 200 || full.Body != "broken" || full.ID != 6 {
			t.Errorf("%s: %d %+v", path, status, full)
		}
	}
	var r LetterReport
	for _, c := range []struct{ path, body, want string }{
		{"/dlq/replay", `{"filter":{"code":"subject"},"dry_run":true}`, "matched 5 replayed 5 (0) kept 0 deleted 0"},
		{"/dlq/replay", `{"ids":["1","EVENTS/6","EVENTS/77"]}`, "matched 2 replayed 1 (0) kept 1 deleted 1 json"},
		{
			"/dlq/replay", `{"all":true,"as_backfill":true,"limit":10000}`,
			"matched 5 replayed 4 (0) kept 1 deleted 4 json",
		},
		{"/dlq/purge", `{"filter":{"field":"none"}}`, "matched 0 replayed 0 (0) kept 0 deleted 0"},
		{"/dlq/purge", `{"all":true}`, "matched 1 replayed 0 (0) kept 0 deleted 1"},
	} {
		r = LetterReport{}
		if status := s.ask("POST", api+c.path, jsonType, c.body, &r); status != 200 {
			t.Errorf("%s %s: %d", c.path, c.body, status)
		}
		s.want(r, c.want)
	}
	for i := range 5 {
		if n := len(s.stored(rightSubject(i, "crawled"))); n == 0 {
			t.Errorf("event %d is not stored", i)
		}
	}
}

// TestPurgeLimit: a purge over HTTP takes no more letters than it says it does,
// and as a dry run says the same.
func TestPurgeLimit(t *testing.T) {
	s := serve(t, auth.Config{})
	for i := range 1015 {
		if _, err := s.js.PublishAsync(stream.DeadLetterSubject("WORK", uint64(i+1)), nil); err != nil {
			t.Fatal(err)
		}
	}
	<-s.js.PublishAsyncComplete()
	for _, c := range []struct {
		body string
		want int
		more bool
	}{
		{`{"all":true,"limit":10}`, 10, true},
		{`{"filter":{"stream":"WORK"},"limit":3}`, 3, true},
		{`{"all":true}`, 1000, true},
		{`{"all":true}`, 2, false},
	} {
		for _, dry := range []bool{true, false} {
			var r LetterReport
			s.ask("POST", api+"/dlq/purge", jsonType,
				strings.TrimSuffix(c.body, "}")+fmt.Sprintf(`,"dry_run":%v}`, dry), &r)
			if r.Matched != c.want || (r.NextCursor != "") != c.more || (!dry && r.Deleted != c.want) {
				t.Errorf("%s, dry %v: %+v", c.body, dry, r)
			}
		}
	}
}

func TestWhatBadRequestsGet(t *testing.T) {
	s := serve(t, auth.Config{})
	s.put(dead{seq: 1})
	ids := `{"ids":[` + strings.TrimSuffix(strings.Repeat(`"1",`, 1001), ",") + `]}`
	for _, c := range []struct {
		method, path, contentType, body string
		status                          int
		field                           string
	}{
		{"GET", "/dlq?limit=0", "", "", 400, "limit"},
		{"GET", "/dlq?limit=1001", "", "", 400, "limit"},
		{"GET", "/dlq?limit=99999999999999999999", "", "", 400, "limit"},
		{"GET", "/dlq?cursor=-1", "", "", 400, "cursor"},
		{"GET", "/dlq?cursor=x", "", "", 400, "cursor"},
		{"GET", "/dlq?order=random", "", "", 400, "order"},
		{"GET", "/dlq?subject=a%0Ab", "", "", 400, "subject"},
		{"GET", "/dlq?subject=%3E.a", "", "", 400, "subject"},
		{"GET", "/dlq?code=%1b%5b2J", "", "", 400, "code"},
		{"GET", "/dlq?stream=EVENTS.%3E", "", "", 400, "stream"},
		{"GET", "/dlq?since=yesterday", "", "", 400, "since"},
		{"GET", "/dlq?since=2026-02-10T00:00:00Z&until=2026-02-10T00:00:00Z", "", "", 400, "until"},
		{"GET", "/dlq/x", "", "", 400, "id"},
		{"GET", "/dlq/EVENTS.%2A/1", "", "", 400, "id"},
		{"GET", "/dlq/2", "", "", 404, ""},
		{"GET", "/dlq/EVENTS/2", "", "", 404, ""},
		{"POST", "/dlq/purge", jsonType, `{}`, 400, ""},
		{"POST", "/dlq/purge", jsonType, `{"filter":{}}`, 400, ""},
		{"POST", "/dlq/replay", jsonType, `{}`, 400, ""},
		{"POST", "/dlq/purge", jsonType, `{"all":true,"ids":["1"]}`, 400, ""},
		{"POST", "/dlq/purge", jsonType, ids, 400, "ids"},
		{"POST", "/dlq/purge", jsonType, `{"all":true,"limit":10001}`, 400, "limit"},
		{"POST", "/dlq/purge", jsonType, `{"all":true,"cursor":"9"}`, 400, "cursor"},
		{"POST", "/dlq/purge", jsonType, `{"ids":["a/b/c"]}`, 400, "id"},
		{"POST", "/dlq/purge", jsonType, `{"al":true}`, 400, "al"},
		{"POST", "/dlq/purge", jsonType, `{"all":`, 400, ""},
		{"POST", "/dlq/purge", "", `{"all":true}`, 415, "Content-Type"},
		{"POST", "/dlq/purge", "text/plain", `{"all":true}`, 415, "Content-Type"},
		{"POST", "/dlq/purge", jsonType, `{"ids":["` + strings.Repeat("1", 2<<20) + `"]}`, 413, ""},
		{"DELETE", "/dlq/1", "", "", 405, ""},
	} {
		var p httpapi.Problem
		status := s.ask(c.method, api+c.path, c.contentType, c.body, &p)
		if status != c.status || p.Status != status ||
			(c.field != "" && (len(p.Errors) == 0 || p.Errors[0].Field != c.field)) {
			t.Errorf("%s %s %.80s: %d %+v", c.method, c.path, c.body, status, p)
		}
	}
	if s.letters() != 1 {
		t.Error("a refused request has deleted something")
	}
}

// TestAllFaults: a caller is told all that is wrong with a request at once.
func TestAllFaults(t *testing.T) {
	s := serve(t, auth.Config{})
	for _, c := range []struct{ method, path, body, fields string }{
		{"POST", "/dlq/purge?x=1", `{"ids":["x"],"all":true,"limit":0,"cursor":"?"}`, "limit x cursor  id"},
		{
			"POST", "/dlq/replay", `{"filter":{"stream":"a.b","subject":"a..b","since":"now","until":"then"}}`,
			"since until stream subject",
		},
		{"POST", "/dlq/replay", `{"filter":{"since":"now"},"as_backfill":"x"}`, "as_backfill since"},
		{"POST", "/dlq/purge", `{"all":`, ""},
		{"GET", "/dlq?stream=a.b&since=now&limit=0&x=1", "", "limit x since stream"},
	} {
		var p httpapi.Problem
		if status := s.ask(c.method, api+c.path, jsonType, c.body, &p); status != http.StatusBadRequest {
			t.Errorf("%s %s %s: %d", c.method, c.path, c.body, status)
		}
		var fields []string
		for _, e := range p.Errors {
			fields = append(fields, e.Field)
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("%s %s %s: the fields %q, want %q", c.method, c.path, c.body, got, c.fields)
		}
	}
}

func TestScopes(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	s := serve(t, auth.Config{Secret: secret, AnonymousIngest: true})
	paths := [][2]string{
		{"GET", "/dlq"},
		{"GET", "/dlq/1"},
		{"GET", "/dlq/EVENTS/1"},
		{"POST", "/dlq/replay"},
		{"POST", "/dlq/purge"},
	}
	for scope, want := range map[auth.Scope]int{
		"": 401, auth.Read: 403, auth.EventsBackfill: 403, auth.Work: 403,
		auth.Admin: 200,
	} {
		var err error
		if s.token = ""; scope != "" {
			if s.token, err = auth.Mint(secret, "ann", []auth.Scope{scope}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range paths {
			var answer struct{}
			status := s.ask(p[0], api+p[1], jsonType, `{"all":true}`, &answer)
			if status != want && !(want == 200 && status == 404) {
				t.Errorf("%q %s: %d, want %d", scope, p, status, want)
			}
		}
	}
}

// While NATS is away there is an answer that says so.
func TestHTTPWithoutServer(t *testing.T) {
	s := serve(t, auth.Config{})
	s.cfg.Timeout = 100 * time.Millisecond
	s.nats.Stop()
	for _, p := range [][2]string{{"GET", "/dlq"}, {"GET", "/dlq/1"}, {"POST", "/dlq/replay"}, {"POST", "/dlq/purge"}} {
		var problem httpapi.Problem
		if status := s.ask(p[0], api+p[1], jsonType, `{"all":true}`, &problem); status != 503 {
			t.Errorf("%s: %d %+v", p, status, problem)
		}
	}
}

func TestDescription(t *testing.T) {
	s := serve(t, auth.Config{})
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	s.ask("GET", "/openapi.json", "", "", &doc)
	for path, method := range map[string]string{
		"/dlq": "get", "/dlq/{id}": "get", "/dlq/{stream}/{seq}": "get",
		"/dlq/replay": "post", "/dlq/purge": "post",
	} {
		if got := doc.Paths[path][method]; !bytes.Contains(got, []byte(`"security":[{"bearer":["admin"]}]`)) {
			t.Errorf("%s %s: %s", method, path, got)
		}
	}
}

// TestGauges: letters are counted by their reasons, as they come and go, and nothing is
// said while they cannot be read.
func TestGauges(t *testing.T) {
	f := start(t)
	gauges := f.Gauges()
	expect := func(when string, want map[string]string) {
		t.Helper()
		got := samplertest.Read(t, gauges)
		maps.DeleteFunc(got, func(series, _ string) bool { return !strings.HasPrefix(series, "millrace_dlq") })
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("no letter", map[string]string{"millrace_dlq_messages": "0"})
	for i, code := range []string{"json", "json", "stage_unknown", ""} {
		f.put(dead{seq: uint64(i + 1), code: code})
	}
	expect("four letters", map[string]string{
		"millrace_dlq_messages": "4", `millrace_dlq_letters{reason="json"}`: "2",
		`millrace_dlq_letters{reason="stage_unknown"}`: "1", `millrace_dlq_letters{reason="other"}`: "1",
	})
	if _, err := f.Purge(t.Context(), Selection{Filter: Filter{Code: "json"}}, false); err != nil {
		t.Fatal(err)
	}
	f.put(dead{seq: 9, code: "time_future"})
	expect("some are gone", map[string]string{
		"millrace_dlq_messages": "3", `millrace_dlq_letters{reason="time_future"}`: "1",
		`millrace_dlq_letters{reason="stage_unknown"}`: "1", `millrace_dlq_letters{reason="other"}`: "1",
	})
	f.nats.Stop()
	expect("without a server", map[string]string{})
}

// TestReasonsAreBounded: a label has few values, whatever letters say.
func TestReasonsAreBounded(t *testing.T) {
	f := start(t)
	for i := range mostReasons + 20 {
		f.put(dead{seq: uint64(i + 1), code: fmt.Sprint("made-up-", i)})
	}
	got := samplertest.Read(t, f.Gauges())
	if n := got[`millrace_dlq_letters{reason="other"}`]; n != "20" {
		t.Errorf("%s letters of other reasons, of %v", n, got)
	}
}

package jobs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/source"
)

// source sends a request, holds its status, and returns the source of the answer.
func (s *site) source(status int, method, path, body string) (got source.CrawlSource) {
	s.T.Helper()
	n, text := s.Do(method, nil, path, body)
	if n != status {
		s.T.Fatalf("%s %s %s: %d %s, want %d", method, path, body, n, text, status)
	}
	if status < 300 && status != http.StatusNoContent {
		s.Into(&got, status, n, text)
	}
	return got
}

const example = `{"name":"Example News","url":"https://example.com","rate_limit":10,"max_depth":3,` +
	`"selectors":{"title":"h1.article-title"},"priority":"high"}`

// TestSource goes the way of a source, by the letter of the contract.
func TestSource(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	made := s.source(201, "POST", "/sources", example)
	path := "/sources/" + made.ID.String()
	fields := func(f source.Fields) string {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const is = `{"name":"Example News","url":"https://example.com","rate_limit":%d,"max_depth":3,"enabled":%v,` +
		`"selectors":{"title":"h1.article-title"},"priority":"high"}`
	for _, c := range []struct {
		method, path, body, want string
	}{
		{"POST", path + "/enable", "", fmt.Sprintf(is, 10, true)},
		{"PUT", path, `{"rate_limit":5}`, fmt.Sprintf(is, 5, true)},
		{"POST", path + "/disable", "", fmt.Sprintf(is, 5, false)},
		{"POST", path + "/enable", `{"reason":"it is back"}`, fmt.Sprintf(is, 5, true)},
		{"PUT", path, `{"enabled":false,"rate_limit":6}`, fmt.Sprintf(is, 6, false)},
		{"PUT", path, `{}`, fmt.Sprintf(is, 6, false)},
		{"PUT", path, example, fmt.Sprintf(is, 10, false)},
	} {
		got := s.source(200, c.method, c.path, c.body)
		stored, err := s.Sources.Get(t.Context(), made.ID)
		if text := fields(got.Fields); text != c.want || fields(stored.Fields) != c.want || err != nil {
			t.Errorf("%s %s %s: %s, stored %+v, %v, want %s", c.method, c.path, c.body, text, stored, err, c.want)
		}
	}
	s.source(204, "DELETE", path+"?reason=moved", "")
	for _, c := range [][3]string{
		{"DELETE", path, ""},
		{"PUT", path, `{"name":"b"}`},
		{"POST", path + "/enable", ""},
		{"POST", path + "/disable", "{}"},
	} {
		s.source(404, c[0], c[1], c[2])
	}
}

// TestRefusedOfSources: bad input of every request is answered by field and rule.
func TestRefusedOfSources(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	id := s.source(201, "POST", "/sources", example).ID.String()
	many := `"` + strings.Repeat(id+`","`, maxBulk) + id + `"`
	for _, c := range []struct {
		method, path, body, field, code string
	}{
		{"POST", "/sources", `{"name":"a"}`, "url", "missing"},
		{"POST", "/sources", `{"name":"a","url":"https://e.com","ratelimit":1}`, "ratelimit", "field_unknown"},
		{"POST", "/sources?dry=1", example, "dry", "parameter_unknown"},
		{"PUT", "/sources/" + id, `{"priority":"urgent"}`, "priority", "priority_unknown"},
		{"PUT", "/sources/1", `{}`, "id", "uuid"},
		{"POST", "/sources/" + strings.ToUpper(id) + "0/enable", ``, "id", "uuid"},
		{"POST", "/sources/" + id + "/enable", `{"reason":"a\u0000"}`, "reason", "control_character"},
		{"POST", "/sources/" + id + "/disable", `{"why":"a"}`, "why", "field_unknown"},
		{"DELETE", "/sources/" + id + "?reason=" + strings.Repeat("a", 256), "", "reason", "length"},
		{"POST", "/sources/bulk", `{"operation":"pause","ids":["` + id + `"]}`, "operation", "operation_unknown"},
		{"POST", "/sources/bulk", `{"operation":"enable","ids":[]}`, "ids", "length"},
		{"POST", "/sources/bulk", `{"operation":"enable","ids":[` + many + `]}`, "ids", "length"},
		{"POST", "/sources/bulk", `{"operation":"enable"}`, "ids", "missing"},
	} {
		status, text := s.Do(c.method, nil, c.path, c.body)
		var problem struct {
			Errors []struct{ Field, Code, Rule string }
		}
		s.Into(&problem, 400, status, text)
		if e := problem.Errors; len(e) != 1 || e[0].Field != c.field || e[0].Code != c.code || e[0].Rule == "" {
			t.Errorf("%s %s %.200s: %s", c.method, c.path, c.body, text)
		}
	}
	for _, body := range []string{`[]`, `{"name":`, ``} {
		if status, text := s.Do("POST", nil, "/sources", body); status != 400 && status != 415 {
			t.Errorf("%q: %d %s", body, status, text)
		}
	}
	other := http.Header{"Origin": {"https://evil.example"}}
	if status, text := s.Do("POST", other, "/sources/"+id+"/disable", ""); status != 403 {
		t.Errorf("a page of another origin: %d %s", status, text)
	}
	if now, err := s.Sources.Get(t.Context(), uuid.MustParse(id)); err != nil || !now.Enabled {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestBulkSources: 500 at once, and a result for each member, in their order.
func TestBulkSources(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	ids := make([]string, maxBulk)
	for i := range ids {
		made, err := s.Sources.Create(t.Context(), source.ReadDraft([]byte(example)).Over(source.New()))
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = made.ID.String()
	}
	ids[17], ids[400] = "x", uuid.NewString()
	body, err := json.Marshal(map[string]any{"operation": "disable", "ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	var got ChangedSources
	status, text := s.Post("/sources/bulk", string(body))
	s.Into(&got, 200, status, text)
	if len(got.Results) != len(ids) {
		t.Fatalf("%d results", len(got.Results))
	}
	for i, r := range got.Results {
		if bad := i == 17 || i == 400; r.ID != ids[i] || r.OK == bad || (r.Error != "") != bad {
			t.Errorf("%d: %+v", i, r)
		}
	}
	no := false
	if n, err := s.Sources.Count(t.Context(), sources.Filter{Enabled: &no}); n != maxBulk-2 || err != nil {
		t.Errorf("%d are disabled, %v", n, err)
	}
}

// TestScopeOfSources: nobody but an operator changes sources.
func TestScopeOfSources(t *testing.T) {
	s := serve(t, auth.New(auth.Config{Secret: trackingtest.Secret}))
	id := uuid.NewString()
	for scope, want := range map[auth.Scope]int{
		"": 401, auth.Read: 403, auth.Work: 403, auth.EventsWrite: 403,
		auth.Admin: 404,
	} {
		s.Login("ann", scope)
		for _, c := range [][3]string{
			{"PUT", "/sources/" + id, "{}"},
			{"DELETE", "/sources/" + id, ""},
			{"POST", "/sources/" + id + "/enable", ""},
			{"POST", "/sources/" + id + "/disable", ""},
		} {
			if status, text := s.Do(c[0], nil, c[1], c[2]); status != want {
				t.Errorf("%q: %s %s: %d %s, want %d", scope, c[0], c[1], status, text, want)
			}
		}
		made, bulk := want, want
		if scope == auth.Admin {
			made, bulk = 201, 200
		}
		s.source(made, "POST", "/sources", example)
		s.source(bulk, "POST", "/sources/bulk", `{"operation":"enable","ids":["`+id+`"]}`)
	}
}

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// TestUnknownParameters: no route ignores a query parameter that it does not
// have, and all that is wrong with a request is told at once.
func TestUnknownParameters(t *testing.T) {
	f := newServer(t, Config{})
	type request struct {
		Params
		Period string `query:"period"`
		Limit  int    `query:"limit" minimum:"1"`
	}
	huma.Register(f.API(), huma.Operation{OperationID: "a", Method: http.MethodGet, Path: "/a"},
		func(context.Context, *request) (*struct{}, error) { return nil, nil })
	plain := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	f.Handle(&huma.Operation{
		OperationID: "b", Method: http.MethodPost, Path: "/b/{x}",
		Parameters: []*huma.Param{{Name: "stage", In: "query"}, {Name: "x", In: "path"}},
	}, plain)
	for _, c := range []struct {
		method, target, body string
		status               int
		fields               string
		rule                 string // of the first
	}{
		{"GET", "/api/v1/a?period=7d&limit=2", "", 204, "", ""},
		{"GET", "/api/v1/a?perod=7d", "", 400, "perod", "the nearest is period"},
		{"GET", "/api/v1/a?perod=7d&limit=0&LIMIT=3", "", 400, "limit LIMIT perod", "expected number >= 1"},
		{"GET", "/api/v1/a?access_token=secret", "", 400, "access_token", "Authorization"},
		{"HEAD", "/api/v1/a?perod=7d", "", 400, "", ""},
		{"POST", "/api/v1/b/1?stage=x", "{}", 200, "", ""},
		{"POST", "/api/v1/b/1?stages=x&x=1", "{}", 400, "stages x", "the nearest is stage"},
		{"GET", "/health?verbose", "", 400, "verbose", "there are none"},
		{"GET", "/ready?x=1", "", 400, "x", "there are none"},
		{"GET", "/openapi.json?x=1", "", 400, "x", "there are none"},
		{"GET", "/metrics?x=1", "", 400, "x", "name[]"},
		{"GET", "/metrics?name[]=go_goroutines", "", 200, "", ""},
	} {
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, httptest.NewRequest(c.method, "http://localhost"+c.target, strings.NewReader(c.body)))
		var p Problem
		if c.status == 400 && c.method != "HEAD" {
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Errorf("%s: %v: %s", c.target, err, w.Body)
			}
		}
		var fields []string
		for _, e := range p.Errors {
			fields = append(fields, e.Field)
		}
		if w.Code != c.status || strings.Join(fields, " ") != c.fields ||
			(c.rule != "" && !strings.Contains(p.Errors[0].Rule, c.rule)) {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: the answer tells the token: %s", c.target, w.Body)
		}
	}
}

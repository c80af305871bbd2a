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

// TestNumbersBeyondAll: a number that nothing can hold is refused with the name of its member, wherever it is.
func TestNumbersBeyondAll(t *testing.T) {
	type request struct {
		Params
		Body struct {
			Priority int              `json:"priority,omitempty"`
			Share    float64          `json:"share,omitempty"`
			Lists    []map[string]any `json:"lists,omitempty"`
		}
	}
	s := newServer(t, Config{})
	huma.Register(s.API(), huma.Operation{OperationID: "post-things", Method: http.MethodPost, Path: "/things"},
		func(context.Context, *request) (*struct{}, error) { return nil, nil })
	for body, field := range map[string]string{
		`{"priority":1e3000}`:                        "priority",
		`{"share":-1e400}`:                           "share",
		`{"lists":[{},{"a b":{"\"\n":[1,1E+999]}}]}`: "lists[1].a b.\"\n[1]",
		`{"share":` + strings.Repeat("9", 400) + `}`: "share",
		`1e3000`: "",
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/things", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusBadRequest || len(p.Errors) != 1 ||
			p.Errors[0].Field != field || len(p.Errors[0].Rule) > 150 {
			t.Errorf("%.60s: %d %s, %v, want 400 that names %q", body, w.Code, w.Body, err, field)
		}
	}
}

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
)

// TestUnknownMembers: all members that a body must not have are told at once, each with the
// nearest that it may have, together with what else is wrong.
func TestUnknownMembers(t *testing.T) {
	type window struct {
		Start string `json:"start"`
		End   string `json:"end"`
	}
	type item struct {
		Key      string  `json:"key,omitempty"`
		Priority int     `json:"priority,omitempty"`
		Window   *window `json:"window,omitempty"`
	}
	type request struct {
		Params
		Body struct {
			Name  string `json:"name"`
			Items []item `json:"items,omitempty"`
		}
	}
	s := newServer(t, Config{})
	huma.Register(s.API(), huma.Operation{OperationID: "post-things", Method: http.MethodPost, Path: "/things"},
		func(context.Context, *request) (*struct{}, error) { return nil, nil })
	body := `{"nme":"a","items":[{"piority":5},{"key":7,"window":{"strat":"a","start":"b","end":"c"}}]}`
	r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/things?tz=UTC", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	var p Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusBadRequest {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	got := map[string]string{}
	for _, e := range p.Errors {
		got[e.Field] = e.Code + ": " + e.Rule
	}
	for field, want := range map[string]string{
		"nme":                   "field_unknown: is no field here: the nearest is name, of items, name",
		"name":                  "missing: is required",
		"items[0].piority":      "field_unknown: is no field here: the nearest is priority, of key, priority, window",
		"items[1].key":          "invalid: expected string",
		"items[1].window.strat": "field_unknown: is no field here: the nearest is start, of end, start",
		"tz":                    "parameter_unknown: is not a query parameter here: there are none",
	} {
		if got[field] != want {
			t.Errorf("%s: %q, want %q", field, got[field], want)
		}
		delete(got, field)
	}
	if len(got) > 0 {
		t.Errorf("also %v", got)
	}
}

// TestDescription: the description says what the frame answers, and which members may be null.
func TestDescription(t *testing.T) {
	type part struct {
		N int `json:"n"`
	}
	type answer struct {
		Part   *part      `json:"part"`
		Status *string    `json:"status" enum:"a,b"`
		Absent *part      `json:"absent,omitempty"`
		Run    *uuid.UUID `json:"run"`
	}
	type output struct{ Body answer }
	type request struct {
		Params
		ID   string `path:"id"`
		Body part
	}
	s := newServer(t, Config{})
	huma.Register(s.API(), huma.Operation{OperationID: "put-thing", Method: http.MethodPut, Path: "/things/{id}"},
		func(context.Context, *request) (*output, error) { return nil, nil })
	doc := s.API().OpenAPI()
	for status, want := range map[string]bool{
		"200": true, "400": true, "403": true, "404": true, "408": true, "413": true, "415": true, "500": true,
		"422": false,
	} {
		if got := doc.Paths["/things/{id}"].Put.Responses[status] != nil; got != want {
			t.Errorf("status %s is described: %t, want %t", status, got, want)
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	var served struct {
		Components struct {
			Schemas map[string]struct{ Properties json.RawMessage }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &served); err != nil {
		t.Fatal(err)
	}
	text := served.Components.Schemas["Answer"].Properties
	const want = `{"absent":{"$ref":"#/components/schemas/Part"},` +
		`"part":{"anyOf":[{"$ref":"#/components/schemas/Part"},{"type":"null"}]},` +
		`"run":{"type":["string","null"]},` +
		`"status":{"type":["string","null"],"enum":["a","b",null]}}`
	if !sameJSON(t, string(text), want) {
		t.Errorf("%s, want %s", text, want)
	}
	if more := doc.Components.Schemas.Map()["Problem"].AdditionalProperties; more != true {
		t.Errorf("problems may have members of their own: %v", more)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	normal := func(text string) string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	return normal(a) == normal(b)
}

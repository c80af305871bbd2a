package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestSurprises holds what people and programs that make a mistake are told.
func TestSurprises(t *testing.T) {
	t.Parallel()
	s := up(t, "AUTH_JWT_SECRET="+attackSecret, "MILLRACE_METRICS_AUTH=true")
	t.Run("unknown parameters", func(t *testing.T) { testUnknownParameters(t, s) })
	t.Run("metrics", func(t *testing.T) { testClosedMetrics(t, s) })
	t.Run("events", func(t *testing.T) { testFaultsOfEvents(t, s) })
}

// testUnknownParameters walks every route: a query parameter that it does not
// have is refused by name, a token in the query of anything but the WebSocket, too.
func testUnknownParameters(t *testing.T, s *server) {
	admin := token(t, "admin")
	root := []string{"/health", "/ready", "/metrics"}
	routes := 0
	for at, op := range s.operations(t) {
		routes++
		target := pathOf(at[1], "x")
		if slices.Contains(root, target) {
			target = "/../.." + target
		}
		unknown := []string{"no_such_parameter"}
		if !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool {
			return p.Name == "access_token"
		}) {
			unknown = append(unknown, "access_token")
		}
		for _, name := range unknown {
			req, err := http.NewRequestWithContext(t.Context(), at[0],
				"http://"+s.ports.HTTP+strings.TrimPrefix(api+target, api+"/../..")+"?"+name+"=1",
				strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+admin)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			status, _, body := s.read(resp, err)
			var p problem
			if err := json.Unmarshal(body, &p); err != nil || status != http.StatusBadRequest {
				t.Errorf("%s %s?%s: status %d, %v: %.300s", at[0], target, name, status, err, body)
			}
			if !slices.ContainsFunc(p.Errors, func(e struct{ Field, Code, Rule string }) bool {
				return e.Field == name && e.Code == "parameter_unknown"
			}) {
				t.Errorf("%s %s: %s is not named: %.300s", at[0], target, name, body)
			}
		}
	}
	if routes < 25 {
		t.Errorf("only %d routes", routes)
	}
}

// testClosedMetrics: the metrics are read with a token of the scope read.
func testClosedMetrics(t *testing.T, s *server) {
	for scope, want := range map[string]int{"": 401, "events:write": 403, "read": 200, "admin": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("/metrics"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if scope != "" {
			req.Header.Set("Authorization", "Bearer "+token(t, scope))
		}
		resp, err := http.DefaultClient.Do(req)
		if status, _, body := s.read(resp, err); status != want ||
			(want == 200) != strings.Contains(string(body), "go_goroutines") {
			t.Errorf("with the scope %q: status %d, want %d: %.100s", scope, status, want, body)
		}
	}
}

// testFaultsOfEvents: all that is wrong with an event is told at once, alone and
// in a batch.
func testFaultsOfEvents(t *testing.T, s *server) {
	writer := token(t, "events:write")
	bad := `{"source_name":"","stage":"cooked","occurred_at":"now","service_name":"x","metadata":{"qualityScore":1}}`
	want := "occurred_at article_url source_name stage metadata.qualityScore"
	status, body := s.with(t, writer, http.MethodPost, "/events", bad)
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || status != http.StatusBadRequest || fieldsOf(p) != want {
		t.Errorf("status %d: %s", status, body)
	}
	status, body = s.with(t, writer, http.MethodPost, "/events/batch", `{"events":[`+bad+`,`+valid(nil)+`]}`)
	var batch struct{ Rejected []problem }
	if err := json.Unmarshal(body, &batch); err != nil || status != http.StatusCreated || len(batch.Rejected) != 1 ||
		fieldsOf(batch.Rejected[0]) != want {
		t.Errorf("a batch: status %d: %s", status, body)
	}
	free := valid(map[string]any{"metadata": map[string]any{"anything": 1, "content_length": 2, "topic": "x"}})
	if status, body := s.with(t, writer, http.MethodPost, "/events", free); status != http.StatusCreated &&
		status != http.StatusOK {
		t.Errorf("free metadata: status %d: %s", status, body)
	}
}

func fieldsOf(p problem) string {
	var names []string
	for _, e := range p.Errors {
		names = append(names, e.Field)
	}
	return strings.Join(names, " ")
}

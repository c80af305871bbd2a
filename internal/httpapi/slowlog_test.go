package httpapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestSlowRequests: a slow request is logged with its route and the names and lengths of its
// parameters, and counted. No value of the caller is in the log; a stream is not slow.
func TestSlowRequests(t *testing.T) {
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	s, err := New(Config{Slow: 1}, Deps{Log: slog.New(slog.NewJSONHandler(&log, nil)), Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	param := &huma.Param{Name: "source", In: "query", Schema: &huma.Schema{Type: "string"}}
	s.Handle(&huma.Operation{Method: http.MethodGet, Path: "/things/{id}", Parameters: []*huma.Param{param}},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("source") == "stream" {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			w.WriteHeader(http.StatusOK)
		}))
	ask := func(target string) string {
		log.Reset()
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8075"+target, nil))
		return log.String()
	}
	text := ask("/api/v1/things/secret?source=secrets")
	for _, want := range []string{`"msg":"slow request"`, `"route":"/api/v1/things/{id}"`, `"parameters":"source(7)"`, `"status":200`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s has no %s", text, want)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("%s has a value", text)
	}
	if text := ask("/api/v1/things/1?source=stream"); text != "" {
		t.Errorf("a stream is told of: %s", text)
	}
	if n := testutil.CollectAndCount(reg, "millrace_slow_requests_total"); n != 1 {
		t.Errorf("%d routes were slow, want 1", n)
	}
}

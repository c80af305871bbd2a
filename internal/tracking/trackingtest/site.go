// Package trackingtest serves the routes of shard tracking for tests.
package trackingtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
)

// Site is a server on a database of its own.
type Site struct {
	T        testing.TB
	Store    *tracking.Store
	Registry *prometheus.Registry
	Token    string // of the requests; empty: none
	url      string
}

// Start makes the database; Serve serves.
func Start(t testing.TB, engine *embeddedtest.Postgres, cfg tracking.Config) *Site {
	t.Helper()
	store, err := tracking.New(cfg, engine.Pool(t, tracking.Configure), embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	return &Site{T: t, Store: store, Registry: prometheus.NewRegistry()}
}

// Serve serves what handlers register, until the test ends.
func (s *Site) Serve(handlers ...interface{ Register(*httpapi.Server) }) {
	s.T.Helper()
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: embeddedtest.Log(s.T), Registry: s.Registry})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, h := range handlers {
		h.Register(srv)
	}
	server := httptest.NewServer(srv.Handler())
	s.T.Cleanup(server.Close)
	s.url = server.URL
}

// URL is the address of a path, below the API's base unless it is of the root.
func (s *Site) URL(path string) string {
	if path == "/openapi.json" || path == "/metrics" {
		return s.url + path
	}
	return s.url + "/api/v1/pipeline" + path
}

// Post sends a document and returns the answer's status and text.
func (s *Site) Post(path, body string) (int, string) {
	s.T.Helper()
	return s.ask(http.MethodPost, path, body)
}

// Get asks, and returns the answer's status and text.
func (s *Site) Get(path string) (int, string) {
	s.T.Helper()
	return s.ask(http.MethodGet, path, "")
}

func (s *Site) ask(method, path, body string) (int, string) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.URL(path), strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.Token != "" {
		r.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
		s.T.Errorf("%s %s: %d %s is %s", method, path, resp.StatusCode, text, resp.Header.Get("Content-Type"))
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// Into decodes an answer that has to be of a status.
func (s *Site) Into(into any, want, status int, text string) {
	s.T.Helper()
	if status != want {
		s.T.Fatalf("%d %s, want %d", status, text, want)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		s.T.Fatalf("%s: %v", text, err)
	}
}

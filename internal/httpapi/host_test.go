package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestStrangers: an unprotected server answers nobody, on any path, who asks by
// a name that a stranger may have had point to it.
func TestStrangers(t *testing.T) {
	open := newServer(t, Config{Origins: []string{"https://own.example:8443"}})
	closed := newServer(t, Config{Protected: true})
	for host, status := range map[string]int{
		"127.0.0.1:8075": http.StatusOK, "localhost": http.StatusOK, "own.example": http.StatusOK,
		"evil.example": http.StatusForbidden, "localhost.evil.example:8075": http.StatusForbidden,
	} {
		for _, path := range []string{"/", "/health", "/metrics", "/openapi.json"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			open.Handler().ServeHTTP(w, r)
			if w.Code != status {
				t.Errorf("%s%s: status %d, want %d", host, path, w.Code, status)
			}
			var p Problem
			if status == http.StatusForbidden && (json.Unmarshal(w.Body.Bytes(), &p) != nil || len(p.Errors) != 1 ||
				p.Errors[0].Field != "Host") {
				t.Errorf("%s%s: %s", host, path, w.Body)
			}
			w = httptest.NewRecorder()
			closed.Handler().ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Errorf("%s%s with a secret: status %d", host, path, w.Code)
			}
		}
	}
}

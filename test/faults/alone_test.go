package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMissing: what is down is told even where it is not needed, and so is a
// role that is not there.
func TestMissing(t *testing.T) {
	for body, want := range map[string]string{
		`{"status":"ready","checks":[{"name":"nats","status":"up","needed":true},{"name":"postgres","status":"up",` +
			`"needed":false}]}`: "",
		`{"status":"ready","checks":[{"name":"nats","status":"up","needed":true},{"name":"postgres","status":"down",` +
			`"error":"gone"}]}`: "postgres is down: gone",
		`{"status":"not ready","checks":[{"name":"nats","status":"down","needed":true,"error":"no ` +
			`answer"},{"name":"clickhouse","status":"up"}]}`: "nats is down: no answer; it is not ready by 2 checks",
		`{"status":"ready","checks":[]}`: "it is ready by 0 checks",
		`no JSON`:                        "invalid character",
	} {
		role := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }),
		)
		got := missing(strings.TrimPrefix(role.URL, "http://"))
		if role.Close(); got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
		if missing(strings.TrimPrefix(role.URL, "http://")) == "" {
			t.Error("nothing is missing of a role that is gone")
		}
	}
}

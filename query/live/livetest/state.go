// Package livetest computes live views for tests.
package livetest

import (
	"encoding/json"
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/query/live"
)

// State computes a view without parameters, whose state has the type T.
func State[T any](t *testing.T, v live.View) (state T, s live.Snapshot) {
	t.Helper()
	_, source, p := v.Open(auth.Caller{}, nil)
	if p != nil {
		t.Fatal(p)
	}
	s, err := source.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(s.Body, &state); err != nil {
		t.Fatal(err)
	}
	return state, s
}

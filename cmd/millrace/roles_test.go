package main

import (
	"log/slog"
	"strings"
	"testing"
)

// TestBadURLIsNotQuoted: an address that cannot be read keeps its password.
func TestBadURLIsNotQuoted(t *testing.T) {
	for _, servers := range []string{"nats://user:sec/ret@127.0.0.1:4222", "nats://127.0.0.1:1,nats://user:sec%zzret@127.0.0.1:4222"} {
		_, err := connect(t.Context(), servers, slog.New(slog.DiscardHandler))
		if err == nil || strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "zz") || !strings.Contains(err.Error(), "MILLRACE_NATS_URL") {
			t.Errorf("connect = %v", err)
		}
	}
}

package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// idleEngine serves until its context ends.
type idleEngine struct{ engine }

func (idleEngine) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// TestRestartsBegin: the series of restarts exist from the start. A series that begins with the first restart has no increase
// by it, and the alert MillraceEngineRestarts would not count it.
func TestRestartsBegin(t *testing.T) {
	restarts := newRestarts()
	_, err := keep("clickhouse", slog.New(slog.DiscardHandler), restarts, func() (engine, error) { return idleEngine{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(restarts); n != 2 {
		t.Errorf("there are %d series, want one for each reason", n)
	}
}

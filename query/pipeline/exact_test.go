package pipeline

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/reads"
)

// TestTooLargeForExact: who wants exact counts of a window with too many events is told so,
// and what to ask instead. It is another answer than that of a database which is away.
func TestTooLargeForExact(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{Config: Config{ExactEvents: 4, MostExact: 20}, before: func(r *rig) {
		d := r.writer.Write(reaching("crawled", 21, noon.Add(-1))...)
		viewtest.Checkpoint(t.Context(), t, r.js, d.To)
	}}) // more articles than memory holds
	for _, window := range [][]string{
		{"period", "24h"}, {"from", "2026-01-01T00:00:00Z"}, {"period", "24h", "exclude_reclassifications", "true"},
	} {
		ask := func(status int, uniques string, into any) {
			t.Helper()
			query := viewtest.Values(append([]string{"uniques", uniques}, window...)...)
			if got := r.Get("/funnel", query, into); got != status {
				t.Errorf("%v: status %d, want %d: %+v", query, got, status, into)
			}
		}
		var f Funnel
		ask(http.StatusOK, "auto", &f)
		if f.UniqueMethod != "sketch" || f.Stages[0].Count != 21 {
			t.Errorf("%v: %+v", window, f)
		}
		var p httpapi.Problem
		ask(http.StatusBadRequest, "exact", &p)
		if len(p.Errors) != 1 || p.Errors[0].Field != "uniques" || p.Errors[0].Code != "window_too_large" ||
			!strings.Contains(p.Errors[0].Rule, "more than 20 events") {
			t.Errorf("%v: %+v", window, p)
		}
	}
	ctx := t.Context()
	if !r.svc.overwhelmed(ctx, reads.ErrUnavailable) || !r.svc.overwhelmed(ctx, context.DeadlineExceeded) ||
		r.svc.overwhelmed(ctx, context.Canceled) {
		t.Error("a database that answers pings is taken for away")
	}
	if err := r.svc.deps.ClickHouse.Close(); err != nil {
		t.Fatal(err)
	}
	if r.svc.overwhelmed(ctx, reads.ErrUnavailable) {
		t.Error("a database that is away is taken for overwhelmed")
	}
}

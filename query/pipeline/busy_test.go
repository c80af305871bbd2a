package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
)

// TestFunnelWhileManySourcesLoad: a source that finds no room in memory is
// counted in the database, for a feed without a place of the requests.
func TestFunnelWhileManySourcesLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	layout, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	r.svc.mirror.Arrange(layout)
	crawls := func(at time.Time) (out []event.Event) {
		for i := range 20 {
			e := reaching("crawled", 1, at)[0]
			e.SourceName = fmt.Sprint("source-", i)
			out = append(out, e)
		}
		return out
	}
	r.write(crawls(noon.Add(-time.Hour))...)
	r.writer.Begin(crawls(noon)...) // which loads wait for
	spec, err := reads.ParseWindow(reads.WindowRequest{Period: "24h"})
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	last := ""
	for i := 0; !errors.Is(err, mirror.ErrBusy) && i < 20; i++ {
		last = fmt.Sprint("source-", i)
		_, err = r.svc.mirror.Funnel(gone, last, spec.At, mirror.Auto)
	}
	free := takeAllPlaces(t, r.svc.counting, countsAtOnce)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, feed := range []bool{true, false} {
		f, err := r.svc.funnel(ctx, question{spec: spec, source: last, feed: feed}, mirror.Auto, time.Second)
		if err != nil || f.Stages[0] != (FunnelStage{"crawled", 1, 1}) {
			t.Errorf("%s: %+v, %v", last, f.Stages, err)
		}
		free()
	}
}

// takeAllPlaces takes as many places as there are, and returns how to free them.
func takeAllPlaces(t *testing.T, places *reads.Places, all int) (free func()) {
	t.Helper()
	var leaves []func()
	for range all {
		leave, err := places.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

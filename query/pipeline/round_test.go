package pipeline

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/event"
)

// TestRound: quality scores keep their fraction, unless a client reads integers.
func TestRound(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	var events []event.Event
	for version, scores := range map[string][]float64{"v1": {60, 61}, "v2": {70, 71, 71}} {
		for i, e := range reaching("classified", len(scores), noon.Add(-time.Duration(len(scores))*time.Minute)) {
			e.Metadata = map[string]any{"model_version": version, "quality_score": scores[i]}
			events = append(events, e)
		}
	}
	r.write(events...)
	type figures struct{ Avg, Median, Newest, Delta, Reference, Current float64 }
	ask := func(query string) figures {
		t.Helper()
		var stats Stats
		var drift Drift
		r.Must("/stats", viewtest.Values("round", query), &stats)
		r.Must("/stats/drift", viewtest.Values("round", query, "reference", "v1", "current", "v2"), &drift)
		newest := 0
		if drift.Versions[0].Version != "v2" {
			newest = 1
		}
		return figures{
			*stats.Classification.AvgQuality, *stats.Classification.MedianQuality, *drift.Versions[newest].AvgQuality,
			*drift.Indicators.QualityDelta, *drift.Comparison.Reference.AvgQuality, *drift.Comparison.Current.AvgQuality,
		}
	}
	third := 212.0 / 3
	exact := figures{333.0 / 5, 70, third, third - 60.5, 60.5, third}
	for range 2 { // also from answers that are kept
		if got := ask("true"); got != (figures{67, 70, 71, 10, 61, 71}) {
			t.Errorf("rounded %+v", got)
		}
		got := ask("false")
		got.Newest, got.Delta, got.Current = within(got.Newest, exact.Newest), within(got.Delta, exact.Delta), within(got.Current, exact.Current)
		if got != exact {
			t.Errorf("%+v, want %+v", got, exact)
		}
	}
}

// within is what a figure should be, where it is that but for the last digits.
func within(got, want float64) float64 {
	if diff := got - want; diff < 1e-9 && diff > -1e-9 {
		return want
	}
	return got
}

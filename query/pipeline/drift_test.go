package pipeline

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

// classified makes a classification per topic and score, one article each.
func classified(version string, at time.Time, topics []string, score func(i int) float64) []event.Event {
	out := make([]event.Event, len(topics))
	for i, topic := range topics {
		out[i] = event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/%s/%d", version, i), SourceName: "s", Stage: "classified",
			ServiceName: "test",
			OccurredAt:  at.Add(time.Duration(i) * time.Second),
			Metadata: map[string]any{
				"model_version": version, "topics": []string{topic}, "quality_score": score(i),
			},
		}
	}
	return out
}

func repeated(counts map[string]int) (out []string) {
	for _, name := range []string{"crime", "news", "mining"} {
		for range counts[name] {
			out = append(out, name)
		}
	}
	return out
}

// TestSpecificationOfDrift has the figures of the specification's example.
func TestSpecificationOfDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(classified(
		"v2.0", noon.Add(-30*24*time.Hour), repeated(map[string]int{"crime": 28, "news": 55, "mining": 17}),
		func(i int) float64 { return float64(67 + i%3 - i/99) },
	)...)
	r.write(classified(
		"v2.1", noon.Add(-5*24*time.Hour), repeated(map[string]int{"crime": 32, "news": 51, "mining": 17}),
		func(int) float64 { return 74 },
	)...)
	var got map[string]any
	r.Must("/stats/drift", nil, &got)
	version := func(name string, quality, age float64, crime, news float64) any {
		return map[string]any{
			"version": name, "articles_classified": 100.0, "avg_quality_score": quality, "version_age_days": age,
			"topic_distribution": map[string]any{"crime": crime, "news": news, "mining": 0.17},
		}
	}
	round(got)
	versions := []any{version("v2.1", 74, 5, 0.32, 0.51), version("v2.0", 67.98, 30, 0.28, 0.55)}
	if !reflect.DeepEqual(got["model_versions"], versions) {
		t.Errorf("%s\nwant\n%s", rounded(t, got["model_versions"]), rounded(t, versions))
	}
	want := map[string]any{"quality_score_delta": 6.02, "topic_distribution_shift": 0.04}
	if !reflect.DeepEqual(got["drift_indicators"], want) {
		t.Errorf("%v, want %v", got["drift_indicators"], want)
	}
}

// mixed makes classifications of two versions over the last days, some of them
// twice and some without a score.
func mixed(rng *rand.Rand, n int) []event.Event {
	var out []event.Event
	for i := range n {
		v := rng.IntN(2)
		m := map[string]any{
			"model_version": fmt.Sprintf("v%d", v),
			"topics":        []string{"a", "b", "c", "d"}[rng.IntN(2+v):][:1+rng.IntN(2)%2],
		}
		if rng.IntN(6) > 0 {
			m["quality_score"] = math.Round(rng.NormFloat64()*10) + float64(60+5*v)
		}
		out = append(out, event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/%d", i*9/10),
			SourceName: fmt.Sprintf("source-%d", rng.IntN(2)), Stage: "classified", ServiceName: "test",
			OccurredAt: noon.Add(-time.Duration(rng.Int64N(int64(20 * 24 * time.Hour)))), Metadata: m,
		})
	}
	return out
}

// drawn is a plain recount of a sample.
func (r *rig) drawn(version, source string, from, to time.Time) (Topics, Scores) {
	topics, scores, seen := Topics{}, map[float64]uint64{}, map[string]bool{}
	for _, e := range r.writer.All {
		if (version != "" && e.Metadata["model_version"] != version) || (source != "" && e.SourceName != source) ||
			e.OccurredAt.Before(from) || !e.OccurredAt.Before(to) {
			continue
		}
		for _, topic := range e.Metadata["topics"].([]string) {
			if key := topic + e.ArticleURL; !seen[key] {
				seen[key] = true
				topics[topic]++
			}
		}
		if score, ok := e.Metadata["quality_score"].(float64); ok {
			scores[score]++
		}
	}
	return topics, NewScores(scores)
}

// TestDrift compares samples of every kind with a recount.
func TestDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(mixed(rand.New(rand.NewPCG(1, 2)), 900)...)
	begin, end := noon.Add(-365*24*time.Hour), noon.Add(time.Hour)
	day := func(n int) time.Time { return noon.Add(time.Duration(n) * 24 * time.Hour) }
	stamp := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	var newest Drift
	r.Must("/stats/drift", nil, &newest)
	current, reference := newest.Versions[0].Version, newest.Versions[1].Version
	type bounds struct {
		version  string
		from, to time.Time
	}
	windows := viewtest.Values(
		"reference_from", stamp(day(-20)), "reference_to", stamp(day(-10)), "current_from", stamp(day(-10)),
		"current_to", stamp(end),
	)
	named := viewtest.Values("reference", "v1", "current", "v1", "source", "source-1")
	maps.Copy(named, windows)
	for name, tc := range map[string]struct {
		query              url.Values
		reference, current bounds
	}{
		"by default": {nil, bounds{reference, begin, end}, bounds{current, begin, end}},
		"other way around": {
			viewtest.Values("reference", current, "current", reference),
			bounds{current, begin, end},
			bounds{reference, begin, end},
		},
		"only reference": {
			viewtest.Values("reference", current), bounds{current, begin, end}, bounds{reference, begin, end},
		},
		"in a window": {
			viewtest.Values("from", stamp(day(-7)), "to", stamp(day(-2)), "reference", "v0", "current", "v1"),
			bounds{"v0", day(-7), day(-2)},
			bounds{"v1", day(-7), day(-2)},
		},
		"of a source": {
			viewtest.Values("source", "source-1", "reference", "v0", "current", "v1"),
			bounds{"v0", begin, end},
			bounds{"v1", begin, end},
		},
		"windows":          {windows, bounds{"", day(-20), day(-10)}, bounds{"", day(-10), end}},
		"version, windows": {named, bounds{"v1", day(-20), day(-10)}, bounds{"v1", day(-10), end}},
		"unheard of": {
			viewtest.Values("reference", "v0", "current", "v9"), bounds{"v0", begin, end}, bounds{"v9", begin, end},
		},
	} {
		var got Drift
		r.Must("/stats/drift", tc.query, &got)
		if got.Comparison == nil {
			t.Errorf("%s: nothing is compared", name)
			continue
		}
		source := tc.query.Get("source")
		rt, rs := r.drawn(tc.reference.version, source, tc.reference.from, tc.reference.to)
		ct, cs := r.drawn(tc.current.version, source, tc.current.from, tc.current.to)
		var want []DriftTest
		for _, v := range CompareTopics(rt, ct) {
			want = append(want, newTest("topics", v))
		}
		for _, v := range CompareScores(rs, cs) {
			want = append(want, newTest("quality_score", v))
		}
		if g, w := rounded(t, got.Comparison.Tests), rounded(t, want); g != w {
			t.Errorf("%s: %s\nwant\n%s", name, g, w)
		}
		apart := stat.Mean(cs.values, cs.counts) - stat.Mean(rs.values, rs.counts)
		if delta := got.Indicators.QualityDelta; cs.Size() > 0 && math.Abs(*delta-apart) > 1e-9 {
			t.Errorf("%s: the scores are %g apart, want %g", name, *delta, apart)
		}
		if v := got.Comparison.Reference; v.Version != tc.reference.version ||
			(v.From == nil) != (tc.reference.from == begin) {
			t.Errorf("%s: reference %+v", name, v)
		}
	}
}

// TestScoresBeyondBounds: scores that no mean and no test can be taken of, as
// earlier releases stored them, count as absent and break no answer.
func TestScoresBeyondBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(classified(
		"v1", noon.Add(-time.Hour), repeated(map[string]int{"crime": 2500}),
		func(i int) float64 { return float64(i) },
	)...)
	r.write(classified(
		"v2", noon.Add(-time.Minute), repeated(map[string]int{"crime": 40}), func(int) float64 { return 50 },
	)...)
	spoil := "ALTER TABLE " + engine.Rows("events") + " UPDATE quality_score = if(seq = 3, -1.7e308, 1.7e308) WHERE seq <= 3 " +
		"SETTINGS mutations_sync = 1"
	if err := r.svc.deps.ClickHouse.Exec(t.Context(), spoil); err != nil {
		t.Fatal(err)
	}
	var stats Stats
	r.Must("/stats", nil, &stats)
	scores := slices.Repeat([]float64{50}, 40)
	for i := 3; i < 2500; i++ {
		scores = append(scores, float64(i))
	}
	mean, median := middle(scores)
	if c := stats.Classification; c.Total != 2540 || math.Abs(*c.AvgQuality-*mean) > 1e-9 ||
		*c.MedianQuality != *median {
		t.Errorf("%s, want a mean of %g and a median of %g", rounded(t, c), *mean, *median)
	}
	var got Drift
	r.Must("/stats/drift", nil, &got)
	if v := got.Versions[1]; v.Version != "v1" || *v.AvgQuality != 1251 || *got.Indicators.QualityDelta != 50-1251 {
		t.Errorf("%s, %s", rounded(t, v), rounded(t, got.Indicators))
	}
	for _, test := range got.Comparison.Tests {
		if test.Value == nil || test.Of == "quality_score" && test.ReferenceSize != 2497 {
			t.Errorf("%s", rounded(t, test))
		}
	}
}

// TestNumbersOfJSON: what JSON does not have is null.
func TestNumbersOfJSON(t *testing.T) {
	most, least := math.MaxFloat64, -math.MaxFloat64
	got := indicators(side{shown: DriftSample{AvgQuality: &least}}, side{shown: DriftSample{AvgQuality: &most}})
	if got.QualityDelta != nil {
		t.Errorf("a delta of %g", *got.QualityDelta)
	}
	if v := newTest("topics", Result{Value: math.Inf(-1), Threshold: math.NaN(), PValue: 0.5}); v.Value != nil ||
		v.Threshold != nil || *v.PValue != 0.5 {
		t.Errorf("%+v", v)
	}
}

// TestScopeOfDrift: a period ends at the time of the request, as the funnel's does,
// though events from ahead belong to it.
func TestScopeOfDrift(t *testing.T) {
	spec, err := reads.ParseWindow(reads.WindowRequest{Period: "7d"})
	if err != nil {
		t.Fatal(err)
	}
	q := contrast{question: question{spec: spec}}
	if scope, to := q.scope(noon, store.Cut{7}); to == nil || !to.Equal(noon) || !scope.To.After(noon) ||
		!scope.From.Equal(noon.AddDate(0, 0, -7)) {
		t.Errorf("%+v, told to end at %v", scope, to)
	}
	q.all = true
	if scope, to := q.scope(noon, store.Cut{7}); to != nil || !scope.To.After(noon) {
		t.Errorf("everything: %+v, told to end at %v", scope, to)
	}
}

// TestWindowOfDrift: both samples are told to be of the window.
func TestWindowOfDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(mixed(rand.New(rand.NewPCG(1, 2)), 90)...)
	var got Drift
	r.Must("/stats/drift", viewtest.Values("period", "30d"), &got)
	for _, side := range []DriftSample{got.Comparison.Reference, got.Comparison.Current} {
		if !side.From.Equal(noon.AddDate(0, 0, -30)) || !side.To.Equal(noon) {
			t.Errorf("%s to %s", side.From, side.To)
		}
	}
}

func TestDriftOfNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	var got Drift
	r.Must("/stats/drift", nil, &got)
	if len(got.Versions) != 0 || got.Comparison != nil || got.Indicators != (DriftIndicators{}) {
		t.Errorf("%+v", got)
	}
	r.write(classified(
		"v1", noon.Add(-time.Hour), repeated(map[string]int{"crime": 3}), func(int) float64 { return 50 },
	)...)
	r.Must("/stats/drift", nil, &got)
	if len(got.Versions) != 1 || got.Comparison != nil {
		t.Errorf("%+v", got)
	}
	for _, tc := range []struct{ query, field string }{
		{"reference_from=2026-01-01T00:00:00Z", "reference_to"},
		{"reference_from=2026-01-01T00:00:00Z&reference_to=2026-01-02T00:00:00Z", "current_from"},
		{
			"reference_from=2026-01-03T00:00:00Z&reference_to=2026-01-02T00:00:00Z&" +
				"current_from=2026-01-01T00:00:00Z&current_to=2026-01-02T00:00:00Z", "reference_to",
		},
		{"reference_from=soon&reference_to=2026-01-02T00:00:00Z", "reference_from"},
		{"period=1y", "period"},
		{"reference=%01", "reference"},
	} {
		var p httpapi.Problem
		query, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		if status := r.Get("/stats/drift", query, &p); status != http.StatusBadRequest || len(p.Errors) == 0 ||
			p.Errors[0].Field != tc.field {
			t.Errorf("%s: %d %+v", tc.query, status, p)
		}
	}
}

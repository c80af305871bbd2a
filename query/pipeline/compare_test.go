package pipeline

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func scores(values []float64) Scores {
	counts := map[float64]uint64{}
	for _, v := range values {
		counts[v]++
	}
	return NewScores(counts)
}

// TestAgainstRecount compares with figures that testdata/recount.py computes
// from the definitions.
func TestAgainstRecount(t *testing.T) {
	var cases []struct {
		Name   string
		Topics []Topics
		Scores [][]float64
	}
	var figures []map[string]any
	read(t, "testdata/cases.json", &cases)
	read(t, "testdata/figures.json", &figures)
	if len(cases) == 0 || len(cases) != len(figures) {
		t.Fatalf("%d cases, %d figures", len(cases), len(figures))
	}
	for i, c := range cases {
		want := func(name string) float64 { return figures[i][name].(float64) }
		if figures[i]["name"] != c.Name {
			t.Fatalf("figures of %v, want %s", figures[i]["name"], c.Name)
		}
		if c.Topics != nil {
			got := CompareTopics(c.Topics[0], c.Topics[1])
			if !near(got[0].Value, want("psi")) || !near(got[1].Value, want("jensen_shannon")) {
				t.Errorf("%s: %+v, want %v", c.Name, got, figures[i])
			}
			continue
		}
		got := CompareScores(scores(c.Scores[0]), scores(c.Scores[1]))
		ks, w := got[0], got[1]
		if !near(ks.Value, want("d")) || !near(ks.Threshold, want("critical")) ||
			math.Abs(ks.PValue-want("p")) > 1e-9 {
			t.Errorf("%s: %+v, want %v", c.Name, ks, figures[i])
		}
		if !near(w.Value, want("wasserstein")) || !near(w.Threshold, want("deviation")/10) {
			t.Errorf("%s: %+v, want %v", c.Name, w, figures[i])
		}
		if ks.Reference != uint64(len(c.Scores[0])) || ks.Current != uint64(len(c.Scores[1])) {
			t.Errorf("%s: sizes %d, %d", c.Name, ks.Reference, ks.Current)
		}
	}
}

// TestAgainstPublished compares with figures that can be computed by hand, or
// stand in the documentation of SciPy (scipy.stats.wasserstein_distance,
// scipy.spatial.distance.jensenshannon) and in tables of the Kolmogorov
// distribution.
func TestAgainstPublished(t *testing.T) {
	for name, tc := range map[string]struct{ got, want float64 }{
		"PSI of halves and 0.4, 0.6": {
			stabilityIndex([]float64{0.5, 0.5}, []float64{0.4, 0.6}), 0.1*math.Log(1.25) + 0.1*math.Log(1.2),
		},
		"JS of disjoint ones": {jensenShannon([]float64{1, 0, 0}, []float64{0, 1, 0}), 1},
		"JS of equal ones":    {jensenShannon([]float64{1, 0, 0}, []float64{1, 0, 0}), 0},
		"JS, SciPy's in nats": {
			jensenShannon([]float64{1, 0}, []float64{0.5, 0.5}) * math.Sqrt(math.Ln2), 0.46450140402245893,
		},
		"W of 0 1 3 and 5 6 8": {
			CompareScores(scores([]float64{0, 1, 3}), scores([]float64{5, 6, 8}))[1].Value, 5,
		},
		"W of weighted ones": {
			CompareScores(
				NewScores(map[float64]uint64{0: 3, 1: 1}), NewScores(map[float64]uint64{0: 2, 1: 2}),
			)[1].Value,
			0.25,
		},
		"W, SciPy's third": {CompareScores(
			NewScores(map[float64]uint64{3.4: 14, 3.9: 9, 7.5: 31, 7.8: 72}),
			NewScores(map[float64]uint64{4.5: 32, 1.4: 35}))[1].Value, 4.0781331438047861},
		"D of 1 2 3 and 2 3 4": {
			CompareScores(scores([]float64{1, 2, 3}), scores([]float64{2, 3, 4}))[0].Value, 1.0 / 3,
		},
		"critical D at 5 %, 100, 100": {criticalD(0.05, 100, 100), 1.3581015157406195 * math.Sqrt(0.02)},
	} {
		if !near(tc.got, tc.want) {
			t.Errorf("%s: %.12g, want %.12g", name, tc.got, tc.want)
		}
	}
	for x, p := range map[float64]float64{
		0.82757: 0.5, 1.07275: 0.2, 1.22385: 0.1, 1.35810: 0.05, 1.62762: 0.01, 1.94947: 0.001,
	} {
		if got := kolmogorov(x); math.Abs(got-p) > 1e-5 {
			t.Errorf("the complement of the Kolmogorov distribution at %g is %g, want %g", x, got, p)
		}
	}
	// The two series for it meet.
	if below, above := kolmogorov(math.Nextafter(1, 0)), kolmogorov(1); math.Abs(below-above) > 1e-12 {
		t.Errorf("%g just below 1, %g at 1", below, above)
	}
}

func TestVerdicts(t *testing.T) {
	few := Topics{"a": 10, "b": 19}
	verdicts := func(results []Result) (out []Verdict) {
		for _, r := range results {
			out = append(out, r.Verdict)
		}
		return out
	}
	line := func(from, n int) Scores {
		counts := map[float64]uint64{}
		for i := range n {
			counts[float64(from+i)] = 1
		}
		return NewScores(counts)
	}
	for name, tc := range map[string]struct {
		got  []Result
		want [2]Verdict
	}{
		"empty": {CompareTopics(nil, Topics{"a": 100}), [2]Verdict{Insufficient, Insufficient}},
		"few":   {CompareTopics(few, Topics{"a": 100}), [2]Verdict{Insufficient, Insufficient}},
		"equal": {
			CompareTopics(Topics{"a": 50, "b": 50}, Topics{"a": 500, "b": 500}), [2]Verdict{Stable, Stable},
		},
		"somewhat": {
			CompareTopics(Topics{"a": 50, "b": 50}, Topics{"a": 69, "b": 31}), [2]Verdict{Moderate, Drifted},
		},
		"other": {
			CompareTopics(Topics{"a": 50, "b": 50}, Topics{"a": 90, "b": 10}), [2]Verdict{Drifted, Drifted},
		},
		"no scores":    {CompareScores(Scores{}, line(0, 50)), [2]Verdict{Insufficient, Insufficient}},
		"few scores":   {CompareScores(line(0, 29), line(50, 50)), [2]Verdict{Insufficient, Insufficient}},
		"equal scores": {CompareScores(line(0, 50), line(0, 50)), [2]Verdict{Stable, Stable}},
		"other scores": {CompareScores(line(0, 50), line(40, 50)), [2]Verdict{Drifted, Drifted}},
		"one score, always": {
			CompareScores(NewScores(map[float64]uint64{7: 50}), NewScores(map[float64]uint64{7: 90})),
			[2]Verdict{Stable, Stable},
		},
		"one score, and another": {
			CompareScores(NewScores(map[float64]uint64{7: 50}), NewScores(map[float64]uint64{8: 90})),
			[2]Verdict{Drifted, Drifted},
		},
	} {
		if got := verdicts(tc.got); len(got) != 2 || [2]Verdict(got) != tc.want {
			t.Errorf("%s: %v, want %v: %+v", name, got, tc.want, tc.got)
		}
	}
}

// TestManyValues: samples with more distinct values than are compared one by
// one are off by no more than the grid.
func TestManyValues(t *testing.T) {
	a, b := map[float64]uint64{}, map[float64]uint64{}
	for i := range 10_000 {
		a[float64(i)/100] = 1
		b[float64(i)/100+5] = 1
	}
	got := CompareScores(NewScores(a), NewScores(b))
	grid := 105.0 / maxDistinct
	if math.Abs(got[0].Value-0.05) > 2*grid/100 || math.Abs(got[1].Value-5) > grid {
		t.Errorf("%+v", got)
	}
}

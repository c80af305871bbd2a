package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// drift is what is compared of GET /stats/drift: all but the figures of its
// tests, of which the sizes are.
type drift struct {
	Versions   []driftVersion `json:"model_versions"`
	Indicators struct {
		Quality *float64 `json:"quality_score_delta"`
		Topics  *float64 `json:"topic_distribution_shift"`
	} `json:"drift_indicators"`
	Comparison *driftComparison `json:"comparison"`
}

type driftVersion struct {
	Version  string             `json:"version"`
	Articles int                `json:"articles_classified"`
	Mean     *float64           `json:"avg_quality_score"`
	Topics   map[string]float64 `json:"topic_distribution"`
	Age      int                `json:"version_age_days"`
}

type driftComparison struct {
	Reference driftSide   `json:"reference"`
	Current   driftSide   `json:"current"`
	Tests     []driftTest `json:"tests"`
}

type driftSide struct {
	Version  string   `json:"version"`
	Events   int      `json:"classifications"`
	Articles int      `json:"articles"`
	Mean     *float64 `json:"avg_quality_score"`
	Sample   int      `json:"sample"`
}

type driftTest struct {
	Name      string `json:"name"`
	Of        string `json:"of"`
	Reference int    `json:"reference_size"`
	Current   int    `json:"current_size"`
}

// version is what a model version has classified.
type version struct {
	tally
	name   string
	first  int64
	scores []float64
	topics map[string]*tally
}

// versions of a source, the newest first: that whose earliest event, of any
// source, is the last.
func (t truth) versions(source string) []*version {
	first, all := map[string]int64{}, map[string]*version{}
	for _, e := range t.told {
		if e.Stage != stageNames()[classified] || e.meta.model == "" {
			continue
		}
		if _, known := first[e.meta.model]; !known {
			first[e.meta.model] = e.at
		}
		if source != "" && e.Source != source {
			continue
		}
		v := all[e.meta.model]
		if v == nil {
			v = &version{
				tally: *newTally(), name: e.meta.model, first: first[e.meta.model],
				topics: map[string]*tally{},
			}
			all[v.name] = v
		}
		v.add(e)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *version) int { return cmp.Compare(b.first, a.first) })
}

func (v *version) add(e *told) {
	v.tally.add(e.fact)
	if e.meta.quality != nil {
		v.scores = append(v.scores, *e.meta.quality)
	}
	for _, topic := range distinct(e.meta.topics) {
		if v.topics[topic] == nil {
			v.topics[topic] = newTally()
		}
		v.topics[topic].add(e.fact)
	}
}

// shares are those of a version's articles that have each topic.
func (v *version) shares() map[string]float64 {
	out := map[string]float64{}
	for topic, n := range v.topics {
		out[topic] = float64(len(n.articles)) / float64(len(v.articles))
	}
	return out
}

// mentions are the articles of all topics.
func (v *version) mentions() (n int) {
	for _, topic := range v.topics {
		n += len(topic.articles)
	}
	return n
}

func (v *version) mean() *float64 {
	mean, _ := middle(v.scores)
	return mean
}

// drift of a source, as it is seen at a moment.
func (t truth) drift(source string, now time.Time) drift {
	d, all := drift{Versions: []driftVersion{}}, t.versions(source)
	for _, v := range all {
		age := now.Sub(time.Unix(0, v.first)) / (24 * time.Hour)
		d.Versions = append(d.Versions, driftVersion{v.name, len(v.articles), v.mean(), v.shares(), int(max(0, age))})
	}
	if len(all) < 2 {
		return d
	}
	current, reference := all[0], all[1]
	if c, r := current.mean(), reference.mean(); c != nil && r != nil {
		delta := *c - *r
		d.Indicators.Quality = &delta
	}
	topics := apart(reference.shares(), current.shares())
	d.Indicators.Topics = &topics
	d.Comparison = &driftComparison{Reference: reference.side(), Current: current.side()}
	for _, test := range [][2]string{
		{"population_stability_index", "topics"},
		{"jensen_shannon_distance", "topics"},
		{"kolmogorov_smirnov", "quality_score"},
		{"wasserstein_distance", "quality_score"},
	} {
		sizes := driftTest{Name: test[0], Of: test[1], Reference: reference.mentions(), Current: current.mentions()}
		if sizes.Of != "topics" {
			sizes.Reference, sizes.Current = len(reference.scores), len(current.scores)
		}
		d.Comparison.Tests = append(d.Comparison.Tests, sizes)
	}
	return d
}

func (v *version) side() driftSide { return driftSide{v.name, v.events, len(v.articles), v.mean(), 1} }

// apart is half of how far shares are apart, over all topics.
func apart(reference, current map[string]float64) (sum float64) {
	topics := maps.Clone(reference)
	maps.Copy(topics, current)
	for topic := range topics {
		sum += math.Abs(current[topic]-reference[topic]) / 2
	}
	return sum
}

package pipeline

import (
	"math"
	"slices"
	"time"

	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

// ModelVersion is what a model version has classified.
type ModelVersion struct {
	Version    string             `json:"version" example:"v2.1"`
	Articles   uint64             `json:"articles_classified" doc:"Distinct articles" example:"10002"`
	AvgQuality *float64           `json:"avg_quality_score" doc:"null without a score" example:"74"`
	Topics     map[string]float64 `json:"topic_distribution" doc:"Share of the articles that have a topic, of the 1000 largest topics; the shares add up to more than 1 where articles have several"`
	AgeDays    int                `json:"version_age_days" doc:"Whole days since the version's earliest event" example:"5"`
}

// DriftIndicators compare the current sample with the reference.
type DriftIndicators struct {
	QualityDelta *float64 `json:"quality_score_delta" doc:"Current average quality score, less that of the reference; null where one has none" example:"6"`
	TopicShift   *float64 `json:"topic_distribution_shift" doc:"Half of the sum over topics of how far the shares of the articles are apart; null where a sample is empty" example:"0.04"`
}

// DriftSample is one of the two sides of a comparison.
type DriftSample struct {
	Version         string     `json:"version" doc:"Only this model version; empty: all" example:"v2.0"`
	From            *time.Time `json:"from" doc:"Begin of its window; null: no bound" example:"2026-02-01T00:00:00Z"`
	To              *time.Time `json:"to" doc:"End of its window, exclusive; null: no bound"`
	Classifications uint64     `json:"classifications" doc:"Events" example:"2148"`
	Articles        uint64     `json:"articles" doc:"Distinct articles" example:"2148"`
	AvgQuality      *float64   `json:"avg_quality_score" example:"68"`
	Sample          uint32     `json:"sample" doc:"The tests look at one article in so many; 1, unless there are very many" example:"1"`
}

// DriftTest is what a statistical test has found.
type DriftTest struct {
	Name          string   `json:"name" enum:"population_stability_index,jensen_shannon_distance,kolmogorov_smirnov,wasserstein_distance" example:"population_stability_index"`
	Of            string   `json:"of" enum:"topics,quality_score" example:"topics"`
	Value         *float64 `json:"value" doc:"null where a sample is empty" example:"0.013"`
	Threshold     *float64 `json:"threshold" doc:"A value above it is drift" example:"0.25"`
	PValue        *float64 `json:"p_value" doc:"Of kolmogorov_smirnov; null for the others"`
	ReferenceSize uint64   `json:"reference_size" doc:"Mentions of topics, or quality scores" example:"4100"`
	CurrentSize   uint64   `json:"current_size" example:"19800"`
	Verdict       string   `json:"verdict" enum:"stable,moderate,drift,insufficient_data" doc:"insufficient_data below 30 in a sample; moderate is a population_stability_index above 0.1" example:"stable"`
}

// DriftComparison is how two samples of classifications differ.
type DriftComparison struct {
	Reference DriftSample `json:"reference"`
	Current   DriftSample `json:"current"`
	Tests     []DriftTest `json:"tests"`
}

// Drift is the answer of GET /stats/drift.
type Drift struct {
	Versions    []ModelVersion   `json:"model_versions" doc:"The newest first, at most 100"`
	Indicators  DriftIndicators  `json:"drift_indicators" doc:"Of the comparison"`
	Comparison  *DriftComparison `json:"comparison" doc:"By default of the newest version with the one before; null without two"`
	Sample      uint32           `json:"sample" doc:"model_versions are of one article in so many; 1, unless there are very many" example:"1"`
	GeneratedAt time.Time        `json:"generated_at" example:"2026-02-10T15:42:00.003Z"`
	Stream      StreamPosition   `json:"stream"`
	Notes       reads.Notes      `json:"notes,omitempty" doc:"As in the funnel"`

	cut store.Cut // what is counted
}

// rounded returns the answer with quality scores and their difference as whole numbers.
func (d Drift) rounded() Drift {
	d.Versions = slices.Clone(d.Versions)
	for i := range d.Versions {
		d.Versions[i].AvgQuality = wholeNumber(d.Versions[i].AvgQuality)
	}
	d.Indicators.QualityDelta = wholeNumber(d.Indicators.QualityDelta)
	if d.Comparison != nil {
		c := *d.Comparison
		c.Reference.AvgQuality, c.Current.AvgQuality = wholeNumber(c.Reference.AvgQuality), wholeNumber(c.Current.AvgQuality)
		d.Comparison = &c
	}
	return d
}

func newVersions(
	versions []store.Version, firstSeen map[string]time.Time, sample uint32, now time.Time,
) []ModelVersion {
	out := make([]ModelVersion, 0, len(versions))
	for _, v := range versions {
		m := ModelVersion{
			Version: v.Name, Articles: v.Articles * uint64(sample), AvgQuality: v.Mean, Topics: map[string]float64{},
		}
		for topic, n := range v.Topics {
			m.Topics[topic] = float64(n) / float64(v.Articles)
		}
		if first, known := firstSeen[v.Name]; known {
			m.AgeDays = int(max(0, now.Sub(first)) / (24 * time.Hour))
		}
		out = append(out, m)
	}
	return out
}

// side is a side of a comparison with what was drawn for it.
type side struct {
	shown  DriftSample
	drawn  uint64 // articles
	topics Topics
	scores Scores
}

func indicators(reference, current side) (out DriftIndicators) {
	if r, c := reference.shown.AvgQuality, current.shown.AvgQuality; r != nil && c != nil {
		out.QualityDelta = number(*c - *r)
	}
	if reference.drawn == 0 || current.drawn == 0 {
		return out
	}
	share := func(of side, topic string) float64 { return float64(of.topics[topic]) / float64(of.drawn) }
	shift := 0.0
	for topic := range reference.topics {
		shift += math.Abs(share(current, topic)-share(reference, topic)) / 2
	}
	for topic := range current.topics {
		if _, both := reference.topics[topic]; !both {
			shift += share(current, topic) / 2
		}
	}
	out.TopicShift = &shift
	return out
}

func compare(reference, current side) *DriftComparison {
	c := &DriftComparison{Reference: reference.shown, Current: current.shown}
	for _, r := range CompareTopics(reference.topics, current.topics) {
		c.Tests = append(c.Tests, newTest("topics", r))
	}
	for _, r := range CompareScores(reference.scores, current.scores) {
		c.Tests = append(c.Tests, newTest("quality_score", r))
	}
	return c
}

func newTest(of string, r Result) DriftTest {
	return DriftTest{
		Name: r.Name, Of: of, Value: number(r.Value), Threshold: number(r.Threshold), PValue: number(r.PValue),
		ReferenceSize: r.Reference, CurrentSize: r.Current, Verdict: string(r.Verdict),
	}
}

// number is nil for NaN and the infinities, which JSON does not have.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

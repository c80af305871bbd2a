package pipeline

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Drift tells whether two samples come from the same distribution: samples in, figures and
// verdicts out.
//
// Topics are compared as shares of all mentions of a topic:
//
//   - the Population Stability Index, Σ (c−r)·ln(c/r) over topics with the
//     shares r of the reference and c of the current sample, where a share
//     below 0.0001 counts as 0.0001 (Siddiqi, Credit Risk Scorecards, 2006,
//     whose scale is: below 0.1 stable, above 0.25 changed);
//   - the Jensen–Shannon distance, the square root of the divergence to base
//     2, between 0 and 1 (Endres and Schindelin, A new metric for probability
//     distributions, 2003).
//
// Quality scores are compared by their distributions:
//
//   - the two-sample Kolmogorov–Smirnov statistic D. Its threshold is the
//     critical value c(α)·√((n+m)/(n·m)) with c(α) = √(−½·ln(α/2)) (Smirnov
//     1948); the p-value is that of the Kolmogorov distribution at
//     (√e + 0.12 + 0.11/√e)·D with e = n·m/(n+m) (Stephens 1970), of which
//     the asymptotic one is the leading term;
//   - the 1-Wasserstein distance ∫|F−G|, in points of the score. Its threshold
//     is a tenth of the reference's standard deviation.
//
// With very large samples the Kolmogorov–Smirnov test finds differences that
// are real and do not matter; the other three measure how large a difference
// is.

// Names of tests.
const (
	PSI               = "population_stability_index"
	JensenShannon     = "jensen_shannon_distance"
	KolmogorovSmirnov = "kolmogorov_smirnov"
	Wasserstein       = "wasserstein_distance"
)

// Verdict says what a test has found.
type Verdict string

// Verdicts.
const (
	Stable       Verdict = "stable"
	Moderate     Verdict = "moderate" // worth watching; of the PSI only
	Drifted      Verdict = "drift"
	Insufficient Verdict = "insufficient_data" // a sample is smaller than MinSample
)

// Thresholds. A figure above its threshold is drift.
const (
	PSIModerate            = 0.1
	PSIThreshold           = 0.25
	JensenShannonThreshold = 0.1
	Alpha                  = 0.05 // of Kolmogorov–Smirnov
	WassersteinDeviations  = 0.1  // in standard deviations of the reference
	// MinSample is the least size of a sample that a verdict is given on.
	MinSample = 30
)

// Result is what a test has found. Value and Threshold are NaN where a sample
// is empty.
type Result struct {
	Name               string
	Value, Threshold   float64
	PValue             float64 // of Kolmogorov–Smirnov; NaN for the others
	Reference, Current uint64  // sizes of the samples
	Verdict            Verdict
}

// CompareTopics runs the tests on topics.
func CompareTopics(reference, current Topics) []Result {
	psi := Result{Name: PSI, Threshold: PSIThreshold}
	js := Result{Name: JensenShannon, Threshold: JensenShannonThreshold}
	r, c := reference.Size(), current.Size()
	if r == 0 || c == 0 {
		return []Result{psi.empty(r, c), js.empty(r, c)}
	}
	rs, cs := shares(reference, current)
	psi.Value, js.Value = stabilityIndex(rs, cs), jensenShannon(rs, cs)
	psi, js = psi.judge(r, c), js.judge(r, c)
	if psi.Verdict == Stable && psi.Value > PSIModerate {
		psi.Verdict = Moderate
	}
	return []Result{psi, js}
}

// CompareScores runs the tests on quality scores.
func CompareScores(reference, current Scores) []Result {
	r, c := reference.Size(), current.Size()
	ks, w := Result{Name: KolmogorovSmirnov}, Result{Name: Wasserstein}
	if r == 0 || c == 0 {
		ks.Threshold, w.Threshold = math.NaN(), math.NaN()
		return []Result{ks.empty(r, c), w.empty(r, c)}
	}
	w.Threshold = WassersteinDeviations * reference.deviation()
	ks.Threshold = criticalD(Alpha, float64(r), float64(c))
	reference, current = onGrid(reference, current)
	ks.Value = stat.KolmogorovSmirnov(reference.values, reference.counts, current.values, current.counts)
	// The function normalizes the weights that it is handed.
	w.Value = stat.WassersteinDistance(
		reference.values, current.values, slices.Clone(reference.counts), slices.Clone(current.counts),
	)
	ks, w = ks.judge(r, c), w.judge(r, c)
	ks.PValue = pValue(ks.Value, float64(r), float64(c))
	return []Result{ks, w}
}

func (r Result) empty(reference, current uint64) Result {
	r.Value, r.PValue = math.NaN(), math.NaN()
	r.Reference, r.Current, r.Verdict = reference, current, Insufficient
	return r
}

func (r Result) judge(reference, current uint64) Result {
	r.PValue, r.Reference, r.Current = math.NaN(), reference, current
	switch {
	case min(reference, current) < MinSample:
		r.Verdict = Insufficient
	case r.Value > r.Threshold:
		r.Verdict = Drifted
	default:
		r.Verdict = Stable
	}
	return r
}

// leastShare stands for the share of a topic that a sample lacks.
const leastShare = 1e-4

func stabilityIndex(reference, current []float64) (psi float64) {
	for i := range reference {
		r, c := max(reference[i], leastShare), max(current[i], leastShare)
		psi += (c - r) * math.Log(c/r)
	}
	return psi
}

func jensenShannon(reference, current []float64) float64 {
	// Equal distributions come out a rounding error below nothing.
	return math.Sqrt(max(0, stat.JensenShannon(reference, current)/math.Ln2))
}

// criticalD is the greatest D that samples of n and m of one distribution have
// with a probability of 1−alpha.
func criticalD(alpha, n, m float64) float64 {
	return math.Sqrt(-math.Log(alpha/2)/2) * math.Sqrt((n+m)/(n*m))
}

// pValue is the probability of a D at least as large for samples of one
// distribution.
func pValue(d, n, m float64) float64 {
	e := math.Sqrt(n * m / (n + m))
	return kolmogorov((e + 0.12 + 0.11/e) * d)
}

// kolmogorov is the complement of the Kolmogorov distribution function:
// 2·Σ (−1)^(k−1)·exp(−2k²x²), for small x by the equivalent series that
// converges there.
func kolmogorov(x float64) float64 {
	switch {
	case x <= 0:
		return 1
	case x < 1:
		sum := 0.0
		for k := 1.0; k <= 7; k += 2 {
			sum += math.Exp(-k * k * math.Pi * math.Pi / (8 * x * x))
		}
		return 1 - math.Sqrt(2*math.Pi)/x*sum
	}
	sum, sign := 0.0, 1.0
	for k := 1.0; k <= 6; k++ {
		sum += sign * math.Exp(-2*k*k*x*x)
		sign = -sign
	}
	return min(1, max(0, 2*sum))
}

// Package drift tells whether two samples come from the same distribution.
// It is pure: samples in, figures and verdicts out.
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
package drift

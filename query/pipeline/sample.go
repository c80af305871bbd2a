package pipeline

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// Scores is a sample of quality scores: distinct values, ascending, and how
// often each occurs. Neither may be changed once it is made.
type Scores struct{ values, counts []float64 }

// maxDistinct bounds the distinct values of two samples that are compared, as
// the time for comparing grows with their square. More are put on a grid of
// as many steps between the least and the greatest.
const maxDistinct = 2000

// NewScores makes a sample of values and how often each occurs.
func NewScores(counts map[float64]uint64) Scores {
	s := Scores{}
	for v := range counts {
		s.values = append(s.values, v)
	}
	slices.Sort(s.values)
	for _, v := range s.values {
		s.counts = append(s.counts, float64(counts[v]))
	}
	return s
}

// Size returns how many scores the sample has.
func (s Scores) Size() uint64 { return uint64(floats.Sum(s.counts)) }

// deviation is the standard deviation, 0 for fewer than two scores.
func (s Scores) deviation() float64 {
	if s.Size() < 2 {
		return 0
	}
	return stat.StdDev(s.values, s.counts)
}

// onGrid returns both samples with few enough distinct values.
func onGrid(a, b Scores) (Scores, Scores) {
	if len(a.values) <= maxDistinct && len(b.values) <= maxDistinct {
		return a, b
	}
	least := min(a.values[0], b.values[0])
	step := (max(a.values[len(a.values)-1], b.values[len(b.values)-1]) - least) / maxDistinct
	return a.rounded(least, step), b.rounded(least, step)
}

func (s Scores) rounded(least, step float64) Scores {
	out := Scores{}
	for i, v := range s.values {
		v = least + step*math.Round((v-least)/step)
		if n := len(out.values); n > 0 && out.values[n-1] == v {
			out.counts[n-1] += s.counts[i]
			continue
		}
		out.values, out.counts = append(out.values, v), append(out.counts, s.counts[i])
	}
	return out
}

// Topics is how often each topic is mentioned in a sample.
type Topics map[string]uint64

// Size returns the mentions of all topics.
func (t Topics) Size() (n uint64) {
	for _, c := range t {
		n += c
	}
	return n
}

// shares returns, in one order, the share of the mentions that each topic of
// either sample has.
func shares(reference, current Topics) (r, c []float64) {
	names := map[string]struct{}{}
	for _, sample := range []Topics{reference, current} {
		for name := range sample {
			names[name] = struct{}{}
		}
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.SortFunc(sorted, cmp.Compare[string]) // sums of floats depend on their order
	rn, cn := float64(reference.Size()), float64(current.Size())
	for _, name := range sorted {
		r = append(r, float64(reference[name])/rn)
		c = append(c, float64(current[name])/cn)
	}
	return r, c
}

package integrity

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRanges compares operations on ranges with those on plain sets.
func TestRanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	set := func() (seqs []uint64) {
		for seq := uint64(1); seq < 30; seq++ {
			if random.IntN(3) > 0 {
				seqs = append(seqs, seq)
			}
		}
		return seqs
	}
	expand := func(r Ranges) (seqs []uint64) {
		for i, x := range r {
			if i > 0 && x.From <= r[i-1].To+1 {
				t.Fatalf("%v has ranges that touch", r)
			}
			for seq := x.From; seq <= x.To; seq++ {
				seqs = append(seqs, seq)
			}
		}
		return seqs
	}
	filter := func(seqs []uint64, keep func(uint64) bool) []uint64 {
		return slices.DeleteFunc(slices.Clone(seqs), func(seq uint64) bool { return !keep(seq) })
	}
	for range 500 {
		a, b := set(), set()
		ra, rb := rangesOf(slices.Clone(a)), rangesOf(slices.Clone(b))
		sum := slices.Concat(a, b)
		slices.Sort(sum)
		for what, got := range map[string]struct {
			got  Ranges
			want []uint64
		}{
			"the same": {ra, a},
			"plus":     {ra.Plus(rb), slices.Compact(sum)},
			"minus":    {ra.Minus(rb), filter(a, func(seq uint64) bool { return !slices.Contains(b, seq) })},
			"and":      {ra.And(rb), filter(a, func(seq uint64) bool { return slices.Contains(b, seq) })},
			"from":     {ra.from(10), filter(a, func(seq uint64) bool { return seq >= 10 })},
		} {
			if !slices.Equal(expand(got.got), got.want) || got.got.Count() != uint64(len(got.want)) {
				t.Fatalf("%s of %v and %v: %v, want %v", what, a, b, got.got, got.want)
			}
		}
	}
	if got := rangesOf([]uint64{9, 1, 2, 3, 5}).String(); got != "1-3, 5, 9" {
		t.Errorf("named as %q", got)
	}
}

// TestEnd: what had been removed from a stream before it was made anew is not lost.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		before note
		last   uint64
		want   Ranges
	}{
		{note{First: 6, Last: 5}, 0, nil},
		{note{First: 3, Last: 5}, 0, Ranges{{3, 5}}},
		{note{First: 3, Last: 5}, 4, Ranges{{5, 5}}},
		{note{First: 3, Last: 5}, 5, nil},
	} {
		l := &comparison{before: c.before}
		l.now.State.LastSeq = c.last
		if got, err := l.end(t.Context()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d to %d, now to %d: %v, %v; want %v", c.before.First, c.before.Last, c.last, got, err, c.want)
		}
	}
}

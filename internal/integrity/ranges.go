package integrity

import (
	"fmt"
	"slices"
	"strings"
)

// Range is a range of sequences, both ends included.
type Range struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Ranges are sequences in ascending order: the ranges do not touch each other.
type Ranges []Range

// rangesOf returns sequences as ranges.
func rangesOf(seqs []uint64) (r Ranges) {
	slices.Sort(seqs)
	for _, seq := range seqs {
		if n := len(r); n > 0 && seq <= r[n-1].To+1 {
			r[n-1].To = seq
			continue
		}
		r = append(r, Range{seq, seq})
	}
	return r
}

// Count returns the number of sequences.
func (r Ranges) Count() (n uint64) {
	for _, x := range r {
		n += x.To - x.From + 1
	}
	return n
}

// Plus returns the sequences that are in one of both.
func (r Ranges) Plus(others Ranges) (sum Ranges) {
	all := slices.Concat(r, others)
	slices.SortFunc(all, func(a, b Range) int {
		if a.From < b.From {
			return -1
		}
		return 1
	})
	for _, x := range all {
		if n := len(sum); n > 0 && x.From <= sum[n-1].To+1 {
			sum[n-1].To = max(sum[n-1].To, x.To)
			continue
		}
		sum = append(sum, x)
	}
	return sum
}

// Minus returns the sequences that others do not have.
func (r Ranges) Minus(others Ranges) (rest Ranges) {
	for _, x := range r {
		for _, o := range others {
			if o.To < x.From || o.From > x.To {
				continue
			}
			if o.From > x.From {
				rest = append(rest, Range{x.From, o.From - 1})
			}
			if x.From = o.To + 1; x.From > x.To {
				break
			}
		}
		if x.From <= x.To {
			rest = append(rest, x)
		}
	}
	return rest
}

// And returns the sequences that both have.
func (r Ranges) And(others Ranges) Ranges { return r.Minus(r.Minus(others)) }

// from returns the sequences from one on.
func (r Ranges) from(seq uint64) Ranges {
	if seq == 0 {
		return r
	}
	return r.Minus(Ranges{{0, seq - 1}})
}

// textRanges bounds how many ranges a text names.
const textRanges = 20

// String names the sequences.
func (r Ranges) String() string {
	var parts []string
	for i, x := range r {
		switch {
		case i == textRanges:
			parts = append(parts, fmt.Sprintf("and %d more ranges up to %d", len(r)-i, r[len(r)-1].To))
			return strings.Join(parts, ", ")
		case x.From == x.To:
			parts = append(parts, fmt.Sprint(x.From))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", x.From, x.To))
		}
	}
	return strings.Join(parts, ", ")
}

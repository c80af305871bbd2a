package checkpoint

import (
	"math"
	"testing"
)

// TestSum: the order does not matter, the sum carries, a set that lacks
// an identity or has another one in its place differs, and what is written is
// read the same.
func TestSum(t *testing.T) {
	ids := [][2]uint64{{1, math.MaxUint64}, {math.MaxUint64, 2}, {7, 7}, {0, 5}}
	of := func(ids ...[2]uint64) (f Sum) {
		for _, id := range ids {
			f.Add(id[0], id[1])
		}
		return f
	}
	all := of(ids...)
	if want := (Sum{Count: 4, Hi: 8, Lo: 13}); all != want {
		t.Errorf("%v, want %v", all, want)
	}
	if of(ids[3], ids[1], ids[0], ids[2]) != all || of(ids[:2]...).Plus(of(ids[2:]...)) != all {
		t.Error("the order matters")
	}
	if of(ids[:3]...) == all || of(ids[0], ids[1], ids[2], [2]uint64{0, 6}) == all {
		t.Error("another set has the same sum")
	}
	binary, err := all.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var back Sum
	if err := back.UnmarshalBinary(binary); err != nil || back != all || len(binary) != SumBytes {
		t.Errorf("%x is read as %v, %v", binary, back, err)
	}
	if err := back.UnmarshalBinary(binary[1:]); err == nil {
		t.Error("23 bytes are read")
	}
}

// FuzzSum: what is read as a sum is written the same.
func FuzzSum(f *testing.F) {
	f.Add("4-0000000000000008000000000000000d")
	f.Add("-1-0000000000000008000000000000000d")
	f.Add("4-8 d")
	f.Fuzz(func(t *testing.T, text string) {
		var p Sum
		if err := p.UnmarshalText([]byte(text)); err == nil && p.String() != text {
			t.Errorf("%q is read as %s", text, p)
		}
	})
}

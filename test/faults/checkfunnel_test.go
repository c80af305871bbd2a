package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// TestSketches: sets of any size, folded by any number of slot groups in any
// order and encoded any number of times meanwhile, hold the articles that they
// should, and no set with another article does.
func TestSketches(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	for _, n := range []int{0, 1, 64, 65, 300, 1500, 5000, 40_000} {
		for _, groups := range []int{1, 3} {
			want, wrong := newTally(), newTally()
			for range n {
				id := random.Uint64()
				want.articles[id], wrong.articles[id] = struct{}{}, struct{}{}
			}
			want.events, wrong.events = n, n
			wrong.articles[1] = struct{}{} // so many zeros that no other article hides it
			got := addUpSets(t, encodeSets(t, want.articles, groups, random), n)
			if text := got.differs(want); text != "" {
				t.Errorf("%d articles of %d groups: %s", n, groups, text)
			}
			if text := got.differs(wrong); text == "" {
				t.Errorf("%d articles of %d groups: one that is not there is not missed", n, groups)
			}
		}
	}
}

// encodeSets are the sets of some groups, as a projector stores them now and
// then.
func encodeSets(t *testing.T, ids map[uint64]struct{}, groups int, random *rand.Rand) [][]byte {
	t.Helper()
	sets, encoded := make([]funnel.Set, groups), make([][]byte, groups)
	for id := range ids {
		g := int(id % uint64(groups))
		sets[g].Insert(id)
		if random.IntN(100) == 0 {
			sets[g] = decodeSet(t, encodeSet(t, &sets[g]))
		}
	}
	for g := range sets {
		encoded[g] = encodeSet(t, &sets[g])
	}
	return encoded
}

func encodeSet(t *testing.T, set *funnel.Set) []byte {
	t.Helper()
	data, err := set.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decodeSet(t *testing.T, data []byte) (set funnel.Set) {
	t.Helper()
	if err := set.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	return set
}

// addUpSets reads rows of one key that have so many events together.
func addUpSets(t *testing.T, sets [][]byte, events int) *sum {
	t.Helper()
	sums := map[funnel.Key]*sum{}
	for i, data := range sets {
		n := 0
		if i == 0 {
			n = events
		}
		if err := addRow(sums, []string{
			"900", "1800", "", "crawled", fmt.Sprint(n),
			hex.EncodeToString(data),
		}); err != nil {
			t.Fatal(err)
		}
	}
	return sums[funnel.Key{Width: funnel.Quarter, Bucket: 1800, Stage: "crawled"}]
}

// TestSketchTooSoon: a sketch of few articles is wrong, and so are bytes that
// are no set.
func TestSketchTooSoon(t *testing.T) {
	many, few := newTally(), newTally()
	for i := range uint64(70) {
		many.articles[i<<40] = struct{}{}
	}
	for i := range uint64(60) {
		few.articles[i<<40] = struct{}{}
	}
	got := addUpSets(t, encodeSets(t, many.articles, 1, rand.New(rand.NewPCG(1, 1))), 0)
	if got.differs(many) != "" || got.differs(few) == "" {
		t.Errorf("%q, %q", got.differs(many), got.differs(few))
	}
	if err := new(sum).add([]byte{9, 1}); err == nil {
		t.Error("what is no set is added")
	}
}

// TestEstimates: whatever a sketch was merged from, it says one of the numbers.
func TestEstimates(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 1))
	for _, n := range []int{10, 64, 65, 900, 3000, 30_000} {
		want := newTally()
		want.events = 2 * n
		for range n {
			want.articles[random.Uint64()] = struct{}{}
		}
		for _, parts := range []int{1, 2, 40} {
			var merged funnel.Set
			for _, data := range encodeSets(t, want.articles, parts, random) {
				set := decodeSet(t, data)
				if err := merged.Merge(&set); err != nil {
					t.Fatal(err)
				}
			}
			if got := int(merged.Estimate()); !slices.Contains(want.estimates(), got) {
				t.Errorf("%d articles in %d parts: %d, want one of %v", n, parts, got, want.estimates())
			}
		}
	}
}

// TestFunnelAnswers: exactness is required, and each number.
func TestFunnelAnswers(t *testing.T) {
	w := world(t, 40)
	exact := httpFunnel{Stages: stages(w.told), Method: "exact"}
	n := byStage(w.told)
	sketch := httpFunnel{Stages: stages(w.told), Method: "sketch"}
	for i := range sketch.Stages {
		sketch.Stages[i].Articles = n[i].estimates()[0]
	}
	if text := differFunnel(exact, n, false); text != "" {
		t.Error(text)
	}
	if text := differFunnel(sketch, n, true); text != "" {
		t.Error(text)
	}
	if differFunnel(exact, n, true) == "" || differFunnel(sketch, n, false) == "" {
		t.Error("the method is not looked at")
	}
	for _, f := range []httpFunnel{exact, sketch} {
		for i := range f.Stages {
			for _, of := range []*int{&f.Stages[i].Events, &f.Stages[i].Articles} {
				*of += 3
				if differFunnel(f, n, f.Method == "sketch") == "" {
					t.Errorf("%s: a number of %s is not looked at", f.Method, f.Stages[i].Name)
				}
				*of -= 3
			}
		}
	}
}

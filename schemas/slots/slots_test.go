package slots

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/schemas/stream"
)

// random returns a layout that has been through some changes.
func random(t *testing.T, rng *rand.Rand) Layout {
	t.Helper()
	number := func() uint32 { return []uint32{1, 2, 3, 4, 7, 16, 256}[min(rng.IntN(7), rng.IntN(7))] }
	l, err := New(number())
	after := uint64(0)
	for range rng.IntN(5) {
		if err != nil {
			t.Fatal(err)
		}
		if l, err = l.Ask(number()); err != nil {
			t.Fatal(err)
		}
		after += uint64(rng.IntN(4)) // 0: a change before anything is folded
		l, err = l.Cut(after)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// has tells whether the group's epoch holds for a sequence.
func has(l Layout, g Group, seq uint64) bool {
	return seq > g.After && (g.ID >= l.Epochs[len(l.Epochs)-1].First || seq <= g.Upto)
}

// TestOneOwner holds invariant 1: whatever is published on the stream is read
// and owned by exactly one group, through any changes.
func TestOneOwner(t *testing.T) {
	subjects := []string{
		"events.crawled.zz", "events.crawled.0", "events.crawled.000", "events.crawled.FF",
		"events..00", "events.x.é",
	}
	for slot := range stream.Slots {
		subjects = append(subjects, fmt.Sprintf("events.crawled.%02x", slot))
	}
	for seed := range uint64(20) {
		l := random(t, rand.New(rand.NewPCG(seed, 1)))
		all := l.All()
		filters := make([][]string, len(all))
		for i, g := range all {
			filters[i] = g.Filters()
			if g.ID != uint32(i) {
				t.Fatalf("seed %d: group %d has the id %d", seed, i, g.ID)
			}
		}
		last := l.Current()[0].After
		for seq := uint64(1); seq < last+3; seq++ {
			for _, subject := range subjects {
				owners := 0
				for i, g := range all {
					if !has(l, g, seq) || !g.Owns(subject) {
						continue
					}
					owners++
					suffix := subject[strings.LastIndex(subject, "."):]
					if f := filters[i]; f != nil && !slices.Contains(f, "events.*"+suffix) {
						t.Errorf("seed %d: %+v owns %s and does not read it", seed, g, subject)
					}
				}
				if owners != 1 {
					t.Fatalf("seed %d: %d groups own %s at %d in %+v", seed, owners, subject, seq, l)
				}
			}
		}
	}
}

// TestPositions: what is told of all groups together is true of each slot,
// however far the groups are, as far as invariants 3 and 4 let them be.
func TestPositions(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := random(t, rng)
		all, current := l.All(), l.Current()[0]
		at, ended := make([]uint64, len(all)), rng.IntN(2) == 0
		for i, g := range all {
			switch previous := slices.Contains(l.Previous(), g); {
			case g.ID < current.ID && (!previous || ended):
				at[i] = g.Upto
			case previous:
				at[i] = g.After + rng.Uint64N(g.Upto-g.After+1)
			case ended && rng.IntN(2) == 0:
				at[i] = g.After + rng.Uint64N(5)
			}
		}
		position := func(id uint32) (uint64, bool) { return at[id], at[id] > 0 }
		positions := l.Positions(position)
		if got, least := slices.Min(positions), l.Folded(position); got != least {
			t.Errorf("seed %d: folded up to %d, and %v", seed, least, positions)
		}
		for slot := range stream.Slots {
			upto := positions[slot%len(positions)]
			for seq := uint64(1); seq < current.After+7; seq++ {
				owner := slices.IndexFunc(all, func(g Group) bool {
					return has(l, g, seq) && uint32(slot)%g.Of == g.Number
				})
				if folded := seq <= at[owner]; folded != (seq <= upto) {
					t.Fatalf("seed %d: slot %d is said to be folded up to %d, which is %v of %d", seed, slot,
						upto, folded, seq)
				}
			}
		}
	}
}

func TestChanges(t *testing.T) {
	one, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, groups := range []uint32{0, 257} {
		if _, err := one.Ask(groups); err == nil {
			t.Errorf("%d groups can be asked for", groups)
		}
		if _, err := New(groups); err == nil {
			t.Errorf("an installation begins with %d groups", groups)
		}
	}
	asked, err := one.Ask(4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asked.Ask(2); err == nil {
		t.Error("a change can be asked for while one is under way")
	}
	four, err := asked.Cut(10)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Group{{ID: 0, Number: 0, Of: 1, Upto: 10}}; !slices.Equal(four.Previous(), want) {
		t.Errorf("before: %+v", four.Previous())
	}
	if got, want := four.Current()[3], (Group{ID: 4, Number: 3, Of: 4, After: 10}); got != want {
		t.Errorf("now: %+v", got)
	}
	asked, err = four.Ask(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asked.Cut(9); err == nil {
		t.Error("an epoch can begin before the one before")
	}
}

// TestWrittenForms: a layout that was never changed is written as before there
// were changes; others are refused by programs that read no more than that.
func TestWrittenForms(t *testing.T) {
	for seed := range uint64(50) {
		l := random(t, rand.New(rand.NewPCG(seed, 1)))
		if seed%3 == 0 {
			l.Next = 5
		}
		value, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(value)
		if err != nil || !reflect.DeepEqual(back, l) {
			t.Errorf("%+v is read as %+v, %v", l, back, err)
		}
		plain := fmt.Sprintf(`{"slot_groups":%d}`, l.Epochs[0].Groups)
		if changed := len(l.Epochs) > 1 || l.Next > 0; (string(value) == plain) == changed {
			t.Errorf("%+v is written as %s", l, value)
		}
	}
	for _, value := range []string{
		``, `{}`, `4`, `{"slot_groups":0}`, `{"slot_groups":257}`, `{"slot_groups":1,"more":1}`,
		`{"epochs":[{"first":0,"groups":1,"after":3}]}`,
		`{"epochs":[{"first":0,"groups":2,"after":0},{"first":1,"groups":1,"after":3}]}`,
		`{"epochs":[{"first":0,"groups":1,"after":0}],"next":300}`,
	} {
		if l, err := Parse([]byte(value)); err == nil {
			t.Errorf("%s is read as %+v", value, l)
		}
	}
}

// FuzzParse: whatever is read as a layout is whole, and written the same again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"slot_groups":4}`))
	f.Add([]byte(
		`{"slot_groups":0,"epochs":[{"first":0,"groups":1,"after":0},{"first":1,"groups":4,"after":9}],"next":2}`,
	))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Parse(data)
		if err != nil {
			return
		}
		value, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(value); err != nil || !reflect.DeepEqual(back, l) {
			t.Fatalf("%q: %+v is read as %+v, %v", data, l, back, err)
		}
	})
}

// TestKeys: a group's key is read as its id, and no other key is.
func TestKeys(t *testing.T) {
	for _, id := range []uint32{0, 7, 1<<32 - 1} {
		if got, ok := ParseKey(Group{ID: id}.Key()); got != id || !ok {
			t.Errorf("group %d: %d, %t", id, got, ok)
		}
	}
	for _, key := range []string{"", Key, "7", "funnel.", "funnel.x", "funnel.-1", "funnel.4294967296", "funnels.1"} {
		if id, ok := ParseKey(key); ok {
			t.Errorf("%q is the key of group %d", key, id)
		}
	}
}

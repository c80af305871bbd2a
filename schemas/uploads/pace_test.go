package uploads

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPace: slices take no longer than their target, grow by half at most, and shrink at once when items take ten times
// as long, through steps in latency both ways. A plain simulation works on them, with workers that are never idle.
func TestPace(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	p, err := Pace{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3, 20} {
		latency := 10 * time.Millisecond
		s, mean := Slice{Workers: workers}, time.Duration(0)
		var took []time.Duration
		for slice := range 400 {
			if slice%40 == 39 {
				latency = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond}[r.IntN(2)]
			}
			before := s.Items
			items, fresh := p.Next(Slice{s.Items, s.Items, p.Target, mean, workers})
			if !fresh || before > 0 && float64(items) > 1.5*float64(before)+1 || items < p.Min || items > p.Max {
				t.Fatalf("seed %d: %d items after %d, fresh %v", seed, items, before, fresh)
			}
			s = Slice{Items: items, Workers: workers}
			for s.Ended < s.Items {
				one := time.Duration(float64(latency) * (0.5 + r.Float64()))
				mean = mean + (one-mean)/5
				if mean == one/5 || one > 5*mean {
					mean = one
				}
				s.Ended++
				s.Age += one / time.Duration(workers)
				s.Service = mean
				if next, fresh := p.Next(s); fresh && s.Ended < s.Items {
					s.Items = min(s.Items, max(next, s.Ended)) // its time is over, or it shrinks
				}
			}
			took = append(took, s.Age)
		}
		slices.Sort(took)
		if p95 := took[len(took)*95/100]; p95 > p.Target*5/4 {
			t.Errorf("seed %d: slices of %d workers take %s at p95, and their target is %s", seed, workers, p95, p.Target)
		}
	}
}

// TestPaceSteps: what a slice becomes, step by step.
func TestPaceSteps(t *testing.T) {
	p := Pace{Target: time.Second, Min: 10, Max: 100, Safety: 0.5}
	for _, c := range []struct {
		s     Slice
		items int
		fresh bool
	}{
		{Slice{}, 10, true},
		{Slice{Items: 10, Age: time.Minute}, 10, false}, // nothing is known yet
		{Slice{Items: 10, Ended: 10, Age: 10, Service: time.Millisecond}, 16, true},
		{Slice{Items: 10, Ended: 9, Age: 10, Service: time.Millisecond}, 10, false},
		{Slice{Items: 10, Ended: 1, Age: time.Second, Service: time.Millisecond}, 16, true},
		{Slice{Items: 90, Ended: 90, Service: time.Millisecond}, 100, true},
		{Slice{Items: 100, Ended: 1, Service: 5 * time.Millisecond}, 100, false},
		{Slice{Items: 100, Ended: 1, Service: 30 * time.Millisecond}, 16, true}, // at once
		{Slice{Items: 100, Ended: 1, Service: 30 * time.Millisecond, Workers: 4}, 100, false},
		{Slice{Items: 100, Ended: 1, Service: time.Minute}, 10, true},
	} {
		if items, fresh := p.Next(c.s); items != c.items || fresh != c.fresh {
			t.Errorf("%+v: %d, %v, want %d, %v", c.s, items, fresh, c.items, c.fresh)
		}
	}
	for _, p := range []Pace{{Target: time.Millisecond}, {Min: 5, Max: 4}, {Safety: 2}, {Max: 20_000}} {
		if _, err := p.WithDefaults(); err == nil {
			t.Error(fmt.Sprintf("%+v", p), "is taken")
		}
	}
}

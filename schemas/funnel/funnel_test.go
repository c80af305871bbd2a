package funnel

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func TestCoverIsExactAndShort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		from := time.Unix(rng.Int64N(2e9), rng.Int64N(2)*5).UTC()
		to := from.Add(time.Duration(rng.Int64N(int64(60 * 24 * time.Hour))))
		start, end := Align(from, to)
		if start.Before(from) || (end.After(to) && end.After(start)) {
			t.Fatalf("[%v, %v) aligns to [%v, %v)", from, to, start, end)
		}
		at, buckets := start.Unix(), int64(0)
		for _, s := range Cover(start, end) {
			if s.From != at || s.To <= s.From || s.From%int64(s.Width) != 0 || s.To%int64(s.Width) != 0 {
				t.Fatalf("[%v, %v): span %+v does not follow %d", from, to, s, at)
			}
			at, buckets = s.To, buckets+(s.To-s.From)/int64(s.Width)
		}
		if at != end.Unix() && start.Before(end) {
			t.Fatalf("[%v, %v) is covered up to %d", start, end, at)
		}
		if days := int64(to.Sub(from)/(24*time.Hour)) + 1; buckets > days+2*23+2*3 {
			t.Fatalf("[%v, %v) takes %d buckets", from, to, buckets)
		}
	}
}

func fill(n int, seed uint64) *Set {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := new(Set)
	for range n {
		s.Insert(rng.Uint64())
	}
	return s
}

func TestSetIsExactThenClose(t *testing.T) {
	for _, n := range []int{0, 1, 64, 65, 500, 3000, 20_000, 300_000} {
		s := fill(n, 3)
		text, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var back Set
		if err := back.UnmarshalBinary(text); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]uint64{"set": s.Estimate(), "decoded": back.Estimate()} {
			if n <= listMax && got != uint64(n) {
				t.Errorf("%s of %d counts %d", name, n, got)
			}
			if off := math.Abs(float64(got)-float64(n)) / math.Max(1, float64(n)); off > 3*StandardError {
				t.Errorf("%s of %d counts %d, %.2f %% off", name, n, got, 100*off)
			}
		}
	}
}

func TestMergeEqualsUnion(t *testing.T) {
	sizes := []int{0, 10, 64, 300, 5000, 40_000}
	for _, a := range sizes {
		for _, b := range sizes {
			x, y := fill(a, 1), fill(b, 2)
			for _, s := range []*Set{x, y} { // dense ones come from encoding
				if _, err := s.AppendBinary(nil); err != nil {
					t.Fatal(err)
				}
			}
			before := y.Clone().Estimate()
			if err := x.Merge(y); err != nil {
				t.Fatal(err)
			}
			got := float64(x.Estimate())
			if off := math.Abs(got-float64(a+b)) / math.Max(1, float64(a+b)); off > 3*StandardError {
				t.Errorf("%d merged with %d counts %v", a, b, got)
			}
			if y.Estimate() != before {
				t.Errorf("merging %d into %d changed it", b, a)
			}
		}
	}
}

func TestDeltaRoundTrip(t *testing.T) {
	d := Delta{
		Group: 3, From: 10, To: 1 << 40, Part: 1, Parts: 2, Stages: []string{"crawled", "indexed"},
		Sources: []string{"a.b c", "ü"},
		Entries: []Entry{{900, 0, 1, 1 << 63}, {1800, 1, 0, 2}},
	}
	var back Delta
	if err := back.UnmarshalBinary(d.AppendBinary(nil)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(d, back) {
		t.Errorf("got %+v, want %+v", back, d)
	}
}

func FuzzDelta(f *testing.F) {
	d := Delta{To: 1, Parts: 1, Stages: []string{"crawled"}, Sources: []string{"a"}, Entries: []Entry{{900, 0, 0, 5}}}
	f.Add(d.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, back Delta
		if d.UnmarshalBinary(data) != nil {
			return
		}
		if err := back.UnmarshalBinary(d.AppendBinary(nil)); err != nil || !reflect.DeepEqual(d, back) {
			t.Fatalf("%+v becomes %+v: %v", d, back, err)
		}
	})
}

func FuzzSet(f *testing.F) {
	for _, n := range []int{0, 3, 100, 20_000} {
		text, err := fill(n, 1).AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Set
		if s.UnmarshalBinary(data) != nil {
			return
		}
		before := s.Estimate()
		text, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var again Set
		if err := again.UnmarshalBinary(text); err != nil || again.Estimate() != before {
			t.Fatalf("a set of about %d articles is read again as one of %d: %v", before, again.Estimate(), err)
		}
		s.Insert(42)
		if err := s.Merge(fill(70, 9)); err != nil {
			t.Fatal(err)
		}
		s.Estimate()
	})
}

func BenchmarkMerge(b *testing.B) {
	for name, n := range map[string]int{"list": 50, "sparse": 800, "dense": 50_000} {
		b.Run(name, func(b *testing.B) {
			x, y := fill(50_000, 1), fill(n, 2)
			for _, s := range []*Set{x, y} {
				if _, err := s.AppendBinary(nil); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := x.Merge(y); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

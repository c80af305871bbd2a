package mirror

import (
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
)

var zones = []string{
	"UTC", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Chatham", "America/Sao_Paulo",
}

// clock is the time of a test, which it moves itself.
type clock struct{ now atomic.Int64 }

func (c *clock) time() time.Time         { return time.Unix(0, c.now.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.now.Add(int64(d)) }

func newWorld(t *testing.T, limits Limits) (*world, *Mirror, *clock) {
	t.Helper()
	c := &clock{}
	c.now.Store(time.Date(2026, 10, 4, 11, 7, 13, 250_000_000, time.UTC).UnixNano())
	w := &world{rows: map[rowKey]*row{}}
	m, err := New(
		Config{Stages: pipeline, Limits: limits, Now: c.time}, w, slog.New(slog.NewTextHandler(io.Discard, nil)),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	return w, m, c
}

// check compares the mirror with a recount, for every period and some zones.
func check(t *testing.T, w *world, m *Mirror, now time.Time, uniques Uniques) {
	t.Helper()
	for _, source := range []string{"", "source-1", "source-3", "nobody"} {
		for _, period := range []string{"today", "24h", "7d", "30d"} {
			for _, zone := range zones {
				a, err := m.Funnel(t.Context(), source, of(period, zone), uniques)
				if err != nil {
					t.Fatalf("%s %s %q: %v", period, zone, source, err)
				}
				if want := w.recount(source, a.From); !reflect.DeepEqual(a.Stages, want) {
					t.Fatalf(
						"%s %s %q from %s (exact %v): %v, want %v", period, zone, source, a.From, a.Exact, a.Stages,
						want,
					)
				}
				if period != "today" {
					break // the zone plays no part
				}
			}
		}
	}
}

// TestHistories drives the mirror through random histories: batches in parts,
// lost and repeated deltas, batches that land in the middle of a load, time
// that moves on and clocks that are set. Whenever nothing is under way it has to equal a recount
// (invariants 1 to 5). The limits make it forget, evict and estimate; sets of
// so few articles are exact all the same.
func TestHistories(t *testing.T) {
	for name, limits := range map[string]Limits{
		"roomy":  {},
		"narrow": {Articles: 40, Sources: 1, Sketches: 2, Partials: 1, PartialEvents: 5},
		"middle": {Articles: 90, Sources: 2, Sketches: 3, Partials: 2, PartialEvents: 60},
	} {
		t.Run(name, func(t *testing.T) {
			for range slowtest.N(6, 2) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				live(t, rand.New(rand.NewPCG(seed, 7)), limits)
			}
		})
	}
}

func live(t *testing.T, rng *rand.Rand, limits Limits) {
	w, m, c := newWorld(t, limits)
	deliver := func() {
		d := w.commit(draw(rng, c.time(), rng.IntN(30), 60))
		for _, p := range splitDelta(d, 1+rng.IntN(3)) {
			m.Apply(p)
			if rng.IntN(9) == 0 {
				m.Apply(p) // a repetition
			}
		}
	}
	settle := func() {
		w.during = nil
		reload(t, m)
	}
	m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 40, 60)).To}) // before there was a subscription
	m.Missed()
	for range 30 {
		c.advance(time.Duration(rng.Int64N(int64(17 * time.Minute))))
		switch rng.IntN(10) { // the clock is set, forward or back
		case 0:
			c.advance(time.Duration(rng.Int64N(int64(20*time.Hour)) - int64(10*time.Hour)))
		case 1, 2: // invariant 5
			off := time.Duration(rng.Int64N(int64(180*24*time.Hour)) - int64(90*24*time.Hour))
			c.advance(off)
			m.check()
			settle()
			m.Apply(w.commit(draw(rng, c.time().Add(-off), rng.IntN(30), 60))) // by clocks that are right
			c.advance(-off)
			a := asked(t, m, c)
			if want := w.recount("", a.From); !reflect.DeepEqual(a.Stages, want) {
				t.Fatalf("when the clock is right again: %v, want %v", a.Stages, want)
			}
		}
		switch rng.IntN(6) {
		case 0: // lost; the next delta shows it
			w.commit(draw(rng, c.time(), 1+rng.IntN(9), 60))
			deliver()
		case 1: // the last before a pause is lost; the checkpoint shows it
			m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 1+rng.IntN(9), 60)).To})
			c.advance(2 * lagAllowed)
			m.check()
		case 2: // a part is lost
			parts := splitDelta(w.commit(draw(rng, c.time(), 9, 60)), 3)
			lost := rng.IntN(3)
			for i, p := range parts {
				if i != lost {
					m.Apply(p)
				}
			}
			deliver()
		case 3: // batches land while everything loads
			m.Missed()
			budget := 5
			w.during = func() {
				if budget--; budget >= 0 {
					deliver()
				}
			}
		default:
			deliver()
		}
		if m.wanted() && w.during != nil {
			_ = m.Reload()
		}
		settle()
		check(t, w, m, c.time(), []Uniques{Auto, Sketch}[rng.IntN(2)])
	}
}

// asked is the answer to a question that may have to wait for a load.
func asked(t *testing.T, m *Mirror, c *clock) Answer {
	t.Helper()
	answers := make(chan Answer, 1)
	go func() {
		a, err := m.Funnel(t.Context(), "", of("24h", "UTC"), Auto)
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	for {
		m.check()
		reload(t, m)
		select {
		case a := <-answers:
			return a
		case <-time.After(time.Millisecond):
		}
	}
}

// reload loads everything for as long as that is wanted.
func reload(t *testing.T, m *Mirror) {
	t.Helper()
	for m.wanted() {
		if err := m.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExactOrNot(t *testing.T) {
	w, m, c := newWorld(t, Limits{Articles: 50})
	rng := rand.New(rand.NewPCG(1, 2))
	w.commit(draw(rng, c.time(), 600, 500))
	if _, err := m.Funnel(t.Context(), "", of("today", "UTC"), Auto); !errors.Is(err, ErrNotLoaded) {
		t.Fatalf("before the load: %v", err)
	}
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Funnel(t.Context(), "", of("30d", "UTC"), Exact); !errors.Is(err, ErrNotHeld) {
		t.Fatalf("a window that is too large: %v", err)
	}
	a, err := m.Funnel(t.Context(), "", of("30d", "UTC"), Auto)
	if err != nil || a.Exact {
		t.Fatalf("a window that is too large: exact %v, %v", a.Exact, err)
	}
	for i, want := range w.recount("", a.From) {
		if got := a.Stages[i]; got.Events != want.Events || !within(got.Articles, want.Articles) {
			t.Errorf("stage %d: %+v, want %+v", i, got, want)
		}
	}
}

// within allows three standard errors.
func within(got, want uint64) bool {
	d := float64(got) - float64(want)
	return d*d <= 9*funnel.StandardError*funnel.StandardError*float64(want)*float64(want)+1
}

func TestSketchOfManyArticles(t *testing.T) {
	w, m, c := newWorld(t, Limits{Articles: 1000})
	rng := rand.New(rand.NewPCG(3, 4))
	m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 60_000, 50_000)).To})
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, period := range []string{"24h", "7d", "30d"} {
			a, err := m.Funnel(t.Context(), "", of(period, "UTC"), Auto)
			if err != nil || a.Exact {
				t.Fatalf("%s: exact %v, %v", period, a.Exact, err)
			}
			for i, want := range w.recount("", a.From) {
				if got := a.Stages[i]; got.Events != want.Events || !within(got.Articles, want.Articles) {
					t.Errorf("%s, stage %d: %+v, want %+v", period, i, got, want)
				}
			}
		}
		m.Apply(w.commit(draw(rng, c.time(), 10_000, 50_000)))
	}
}

// TestLateEvents: the single events of a quarter are read again when one has
// come late, but not when there are more than are held anyway.
func TestLateEvents(t *testing.T) {
	for limit, want := range map[int]int{5: 1, 500: 3} {
		w, m, c := newWorld(t, Limits{PartialEvents: limit})
		if err := m.Reload(); err != nil {
			t.Fatal(err)
		}
		from := windowOf("24h", "UTC", c.time()).From
		loads := 0
		for range 3 {
			var late []Event
			for i := range 9 {
				late = append(
					late,
					Event{
						At: from.UnixNano() + int64(i), Stage: pipeline[0], Source: "source-1",
						Article: mix(uint64(i)),
					},
				)
			}
			m.Apply(w.commit(late))
			w.during = func() { loads++ }
			asked(t, m, c)
			asked(t, m, c)
			w.during = nil
		}
		if loads != want {
			t.Errorf("%d loads of a quarter of which %d events are held, want %d", loads, limit, want)
		}
	}
}

// TestReloadFails: the old state answers while a load does not come about.
func TestReloadFails(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	m.Apply(w.commit(draw(rand.New(rand.NewPCG(5, 6)), c.time(), 50, 50)))
	check(t, w, m, c.time(), Auto)
	before, err := m.Funnel(t.Context(), "", of("today", "UTC"), Auto)
	if err != nil {
		t.Fatal(err)
	}
	w.fail = errors.New("no database")
	m.Missed()
	if err := m.Reload(); !errors.Is(err, w.fail) || !m.wanted() {
		t.Fatalf("reload: %v", err)
	}
	after, err := m.Funnel(t.Context(), "", of("today", "UTC"), Auto)
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Fatalf("%v, %v, want %v", after, err, before)
	}
	if _, err := m.Funnel(t.Context(), "source-9", of("today", "UTC"), Auto); !errors.Is(err, w.fail) {
		t.Fatalf("a source that is not held: %v", err)
	}
	w.fail = nil
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	check(t, w, m, c.time(), Auto)
}

// TestLanded: where the rows end is where a load will get to, and a group that
// has ended is not taken for one that has not.
func TestLanded(t *testing.T) {
	p := newPositions()
	if got := p.landed(map[uint32]uint64{0: 3, 1: 8}); !slices.Equal(got, []uint64{8}) {
		t.Errorf("without a layout: %v", got)
	}
	l, err := slots.New(1)
	if err == nil {
		l, err = l.Ask(2)
	}
	if err == nil {
		l, err = l.Cut(20)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.arrange(l)
	if got := p.landed(map[uint32]uint64{0: 18}); !slices.Equal(got, []uint64{18}) {
		t.Errorf("before the end: %v", got)
	}
	p.checkpoint(Checkpoint{Group: 0, Durable: 20}, time.Time{})
	if got := p.landed(map[uint32]uint64{0: 18, 2: 25}); !slices.Equal(got, []uint64{20, 25}) {
		t.Errorf("behind the end: %v", got)
	}
}

// TestGroups: positions are told by slot group as soon as it is known which
// there are, through a change of them.
func TestGroups(t *testing.T) {
	p := newPositions()
	p.checkpoint(Checkpoint{Group: 1, Durable: 7, CaughtUp: 12}, time.Time{})
	if got := p.groups(map[uint32]uint64{0: 5}); got != nil {
		t.Errorf("without a layout: %v", got)
	}
	two, err := slots.New(2)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := two.Ask(3)
	if err != nil {
		t.Fatal(err)
	}
	three, err := asked.Cut(9)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		layout slots.Layout
		folded map[uint32]uint64
		want   []uint64
	}{
		{two, map[uint32]uint64{}, []uint64{0, 0}},
		{two, map[uint32]uint64{0: 5}, []uint64{5, 0}},
		{two, map[uint32]uint64{0: 5, 1: 7}, []uint64{5, 12}},
		{asked, map[uint32]uint64{0: 5, 1: 6}, []uint64{5, 6}},
		{three, map[uint32]uint64{0: 5, 1: 7}, []uint64{5, 9}}, // group 1 has ended
		{three, map[uint32]uint64{0: 8, 1: 9, 2: 12}, []uint64{8, 9}},
		{three, map[uint32]uint64{0: 9, 1: 9}, []uint64{9, 9, 9}},
		{three, map[uint32]uint64{0: 9, 1: 9, 2: 11, 4: 15}, []uint64{11, 9, 15}},
	} {
		p.arrange(tc.layout)
		if got := p.groups(tc.folded); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v, want %v", tc.folded, got, tc.want)
		}
		if got := p.least(tc.folded); got != slices.Min(tc.want) {
			t.Errorf("%v: %d at least, want %v", tc.folded, got, tc.want)
		}
	}
}

// TestRegrouped holds invariants 2 and 3 while the slot groups are changed:
// those that come later begin where their epoch does, and a message that is
// lost is missed, the first of a group too, whether the layout, the group's
// position or its deltas are heard of first, and whatever is loaded in between.
func TestRegrouped(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { regroup(t, seed) })
	}
}

func regroup(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	w, m, c := newWorld(t, Limits{})
	l, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	m.Arrange(l)
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	m.Apply(w.commit(draw(rng, c.time(), 20, 200)))
	for range 3 {
		for range 4 {
			d := w.commit(draw(rng, c.time(), 20, 200))
			if rng.IntN(6) > 0 {
				m.Apply(d)
			}
		}
		before := l
		if l, err = l.Ask(1); err == nil {
			l, err = l.Cut(w.seq)
		}
		if err != nil {
			t.Fatal(err)
		}
		end := Checkpoint{Group: w.group, Durable: w.seq}
		w.group = l.Current()[0].ID
		first := w.commit(draw(rng, c.time(), 20, 200))
		lost := rng.IntN(3) == 0
		steps := []func(){
			func() { m.Checkpoint(end) },
			func() { m.Arrange(l) },
			func() { m.Arrange(before) }, // from a server that lags behind
			func() { m.Checkpoint(Checkpoint{Group: w.group, Durable: first.To}) },
			func() {
				if !lost {
					m.Apply(first)
				}
			},
		}
		rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, step := range steps {
			step()
			if rng.IntN(2) == 0 && m.wanted() {
				_ = m.Reload() // not while a batch of the new group has not been heard of
			}
		}
		c.advance(2 * lagAllowed)
		m.check()
		if err := m.reloadIfWanted(); err != nil {
			t.Fatal(err)
		}
		check(t, w, m, c.time(), Auto)
		if got := m.Position().Folded; got != w.seq {
			t.Errorf("seed %d: folded up to %d, want %d", seed, got, w.seq)
		}
	}
}

// TestFencesAreDropped: what the rows of a load are folded up to is not kept of
// groups from which no delta comes any more.
func TestFencesAreDropped(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	rng := rand.New(rand.NewPCG(4, 2))
	for w.group = range uint32(3) {
		m.Checkpoint(Checkpoint{Group: w.group, Durable: w.commit(draw(rng, c.time(), 50, 60)).To})
	}
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	check(t, w, m, c.time(), Auto)
	for source, held := range m.state.series {
		if n := len(held.watermarks); n > 0 {
			t.Errorf("source %q holds %d watermarks", source, n)
		}
	}
	w.group = 1
	d := w.commit(draw(rng, c.time(), 50, 60))
	d.From = m.state.folded[1]
	m.Apply(d)
	check(t, w, m, c.time(), Auto)
}

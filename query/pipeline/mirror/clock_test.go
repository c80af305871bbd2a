package mirror

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/slots"
)

// ofItsPosition compares an answer with a recount of its own window up to its own position.
func ofItsPosition(t *testing.T, w *world, source string, a Answer) {
	t.Helper()
	want := w.recountUntil(source, a.From, a.End, a.Folded)
	if a.End.Before(a.Window.End()) {
		t.Errorf("%q ends at %s, before its window from %s to %s does", source, a.End, a.Window.From, a.Window.To)
	}
	got := slices.Clone(a.Stages)
	for i := range got {
		if !a.Exact { // estimates carry no sequence
			got[i].Articles = want[i].Articles
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q from %s to %s (exact %t): %v up to %d, want %v", source, a.From, a.Window.To, a.Exact, a.Stages,
			a.Folded, want)
	}
}

// back is how far the clock was set back when a live view fell to zeros.
const back = -6354 * time.Hour

// TestClockSetBack holds invariant 5: a window is never answered from a state that leaves
// out some of it on the far side, as one does that was loaded while the clock was set back.
func TestClockSetBack(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, m *Mirror, c *clock){
		"and everything was loaded": func(t *testing.T, m *Mirror, c *clock) {
			c.advance(back)
			m.check()
			reload(t, m)
		},
		"and forth again after everything was loaded": func(t *testing.T, m *Mirror, c *clock) {
			c.advance(back)
			m.check()
			reload(t, m)
			c.advance(-back)
		},
		"and forth in steps that are not noticed": func(t *testing.T, m *Mirror, c *clock) {
			c.advance(-40 * 24 * time.Hour)
			m.check()
			reload(t, m)
			for range 80 {
				c.advance(12 * time.Hour)
				m.check()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, m, c := newWorld(t, Limits{})
			m.Checkpoint(Checkpoint{Durable: w.commit(draw(rand.New(rand.NewPCG(6, 1)), c.time(), 200, 60)).To})
			m.Missed()
			reload(t, m)
			var begun atomic.Bool
			w.during = func() { // while a source is being loaded
				if begun.CompareAndSwap(false, true) {
					set(t, m, c)
				}
			}
			for _, source := range []string{"source-1", ""} {
				answers := make(chan Answer, 1)
				go func() {
					defer close(answers)
					a, err := m.Funnel(t.Context(), source, of("24h", "UTC"), Auto)
					if err != nil {
						t.Error(err)
					}
					answers <- a
				}()
				ofItsPosition(t, w, source, loading(t, m, answers))
			}
		})
	}
}

// loading loads everything for as long as that is wanted, until there is an answer.
func loading(t *testing.T, m *Mirror, answers <-chan Answer) Answer {
	t.Helper()
	for {
		select {
		case a := <-answers:
			return a
		case <-time.After(time.Millisecond):
			reload(t, m)
		}
	}
}

// TestFarAhead: an event that is too far ahead to be held does not hide what its article
// did before, and is counted once its time has come near.
func TestFarAhead(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	at := func(d time.Duration) Event {
		return Event{At: c.time().Add(d).UnixNano(), Stage: pipeline[0], Source: "source-1", Article: 7}
	}
	m.Checkpoint(Checkpoint{Durable: w.commit([]Event{at(-time.Minute), at(70 * 24 * time.Hour)}).To})
	m.Missed()
	reload(t, m)
	m.Apply(w.commit([]Event{at(-time.Second), at(80 * 24 * time.Hour)}))
	for range 90 {
		for _, source := range []string{"", "source-1"} {
			answers := make(chan Answer, 1)
			go func() {
				a, err := m.Funnel(t.Context(), source, of("24h", "UTC"), Auto)
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
			ofItsPosition(t, w, source, loading(t, m, answers))
		}
		for range 4 {
			c.advance(6 * time.Hour)
			m.check()
		}
	}
}

// TestEveryAnswerIsOfItsPosition asks all the time, while batches land, deltas are lost,
// clocks are set and set right, the database fails, and everything is loaded again. Each
// answer has to be a recount of its window up to its position.
func TestEveryAnswerIsOfItsPosition(t *testing.T) {
	for name, limits := range map[string]Limits{
		"roomy": {}, "narrow": {Articles: 60, Sources: 1, Sketches: 2, Partials: 1, PartialEvents: 20},
	} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			askAllTheTime(t, rand.New(rand.NewPCG(seed, 9)), limits)
		})
	}
}

func askAllTheTime(t *testing.T, rng *rand.Rand, limits Limits) {
	w, m, c := newWorld(t, limits)
	right := c.time()
	deliver := func(lost bool) {
		events := draw(rng, right, rng.IntN(12), 60)
		if d := w.commit(events); !lost {
			m.Apply(d)
		} else {
			m.Checkpoint(Checkpoint{Durable: d.To})
		}
	}
	m.Arrange(slots.Layout{Epochs: []slots.Epoch{{Groups: 1}}})
	deliver(true)
	m.Missed()
	reload(t, m)
	ctx, stop := context.WithCancel(t.Context())
	var askers sync.WaitGroup
	var answered [4]atomic.Int64
	for i := range answered {
		askers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				source := []string{"", "source-1", "source-2"}[(i+n)%3]
				period := []string{"24h", "today", "7d", "30d"}[n%4]
				brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				a, err := m.Funnel(brief, source, of(period, "Asia/Kathmandu"), []Uniques{Auto, Sketch}[n%2])
				cancel()
				switch {
				case err == nil:
					ofItsPosition(t, w, source, a)
					answered[i].Add(1)
				case !errors.Is(err, w.failure()) && !errors.Is(err, context.DeadlineExceeded) &&
					!errors.Is(err, context.Canceled) && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrClock):
					t.Errorf("%q: %v", source, err)
				}
			}
		})
	}
	for step := 0; step < 400 && !t.Failed(); step++ {
		passes := time.Duration(rng.Int64N(int64(3 * time.Minute)))
		right = right.Add(passes)
		c.advance(passes)
		switch rng.IntN(12) {
		case 0:
			c.now.Store(right.Add(time.Duration(rng.Int64N(int64(800*24*time.Hour))) - 400*24*time.Hour).UnixNano())
			m.check()
		case 1:
			c.now.Store(right.UnixNano())
			m.check()
		case 2:
			m.Missed()
		case 3:
			deliver(true)
		case 4:
			w.setFailure(rng.IntN(2) == 0)
		default:
			deliver(false)
		}
		if m.wanted() && rng.IntN(2) == 0 {
			_ = m.Reload()
		}
		time.Sleep(time.Duration(rng.IntN(3)) * 100 * time.Microsecond) // for other interleavings
	}
	w.setFailure(false)
	c.now.Store(right.UnixNano())
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		m.check()
		reload(t, m)
		if !slices.ContainsFunc(counts(&answered), func(n int64) bool { return n < 3 }) {
			break
		}
	}
	stop()
	askers.Wait()
	for i := range answered {
		if n := answered[i].Load(); n == 0 {
			t.Errorf("asker %d got no answer", i)
		}
	}
}

func counts(of *[4]atomic.Int64) (n []int64) {
	for i := range of {
		n = append(n, of[i].Load())
	}
	return n
}

var errAway = errors.New("the database is away")

func (w *world) setFailure(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail = nil; away {
		w.fail = errAway
	}
}

// failure is what loads may have failed with.
func (w *world) failure() error { return errAway }

// TestFirstDeltaIsLost holds invariant 3 from the load on: where the first delta behind it
// is lost, the next one moves no position.
func TestFirstDeltaIsLost(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	rng := rand.New(rand.NewPCG(6, 4))
	m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 50, 60)).To})
	m.Missed()
	reload(t, m)
	w.commit(draw(rng, c.time(), 50, 60))
	m.Apply(w.commit(draw(rng, c.time(), 50, 60)))
	for range 2 { // before and after everything was loaded again
		a, err := m.Funnel(t.Context(), "", of("today", "UTC"), Auto)
		if err != nil {
			t.Fatal(err)
		}
		ofItsPosition(t, w, "", a)
		reload(t, m)
	}
	if got := m.Position().Folded; got != w.seq {
		t.Errorf("folded up to %d, want %d", got, w.seq)
	}
}

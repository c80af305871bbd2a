package mirror

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/schemas/slots"
)

// TestBatchUnderWay holds invariant 6: of a batch that is written in part,
// nothing is shown before it is complete, whatever is loaded meanwhile, and
// whichever of its delta and its checkpoint is heard of.
func TestBatchUnderWay(t *testing.T) {
	layout, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, tell := range map[string]func(m *Mirror, w *world, apply func()){
		"delta":      func(_ *Mirror, _ *world, apply func()) { apply() },
		"checkpoint": func(m *Mirror, w *world, _ func()) { m.Checkpoint(Checkpoint{Durable: w.seq}) },
		"both": func(m *Mirror, w *world, apply func()) {
			m.Checkpoint(Checkpoint{Durable: w.seq})
			apply()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, m, c := newWorld(t, Limits{})
				rng := rand.New(rand.NewPCG(1, 6))
				m.Arrange(layout)
				m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 200, 60)).To})
				ask := func(source string) (Answer, error) {
					return m.Funnel(t.Context(), source, of("24h", "UTC"), Auto)
				}

				d, complete := w.begin(draw(rng, c.time(), 200, 60))
				if err := m.Reload(); !errors.Is(err, ErrUnderWay) {
					t.Fatalf("a load while nobody completes the batch: %v", err)
				}
				if _, err := ask(""); !errors.Is(err, ErrUnderWay) {
					t.Fatalf("a question then: %v", err)
				}
				go func() {
					time.Sleep(deltasWithin / 2)
					if _, err := ask(""); !errors.Is(err, ErrUnderWay) {
						t.Errorf("a question during a load: %v", err)
					}
					complete()
					tell(m, w, func() { m.Apply(d) })
				}()
				if err := m.Reload(); err != nil {
					t.Fatal(err)
				}
				if groups := m.Position().Groups; groups[0] != d.To {
					t.Errorf("counted up to %d, want %d", groups[0], d.To)
				}
				check(t, w, m, c.time(), Auto)
			})
		})
	}
}

// TestPassedOnce: what was asked for while a load was passed is served by the
// one that takes its place.
func TestPassedOnce(t *testing.T) {
	layout, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	w, m, c := newWorld(t, Limits{})
	m.Arrange(layout)
	d := w.commit(draw(rand.New(rand.NewPCG(3, 6)), c.time(), 50, 60))
	m.Missed()
	<-m.wake
	w.during = func() {
		w.during = nil
		m.Missed()
		m.Checkpoint(Checkpoint{Durable: d.To})
	}
	for {
		if err := m.reloadIfWanted(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-m.wake:
			continue
		default:
		}
		break
	}
	if n := m.Stats().Loads; n != 1 {
		t.Errorf("loaded %d times", n)
	}
	check(t, w, m, c.time(), Auto)
}

// TestPartOfABatchIsNotShown: sources and quarters that are looked at for the
// first time while a batch is under way are counted as all else is.
func TestPartOfABatchIsNotShown(t *testing.T) {
	layout, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w, m, c := newWorld(t, Limits{})
		rng := rand.New(rand.NewPCG(2, 6))
		m.Arrange(layout)
		m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 200, 60)).To})
		if err := m.Reload(); err != nil {
			t.Fatal(err)
		}
		before := w.recount("", windowOf("24h", "UTC", c.time()).From)
		d, complete := w.begin(draw(rng, c.time(), 200, 60))
		// Its first quarter is not held yet.
		all, err := m.Funnel(t.Context(), "", of("24h", "UTC"), Auto)
		if err != nil || !reflect.DeepEqual(all.Stages, before) {
			t.Errorf("of all sources: %v, %v, want %v", all.Stages, err, before)
		}
		if a, err := m.Funnel(t.Context(), "source-1", of("24h", "UTC"), Auto); !errors.Is(
			err, ErrUnderWay,
		) {
			t.Errorf("of one source: %v, %v", a, err)
		}
		complete()
		m.Apply(d)
		check(t, w, m, c.time(), Auto)
	})
}

// TestLandedUnderWay: where the rows end is told when a checkpoint or a delta
// says that the batch that ends there is durable, and never before.
func TestLandedUnderWay(t *testing.T) {
	layout, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w, m, c := newWorld(t, Limits{})
		rng := rand.New(rand.NewPCG(4, 6))
		m.Arrange(layout)
		close(m.heard)
		first := w.commit(draw(rng, c.time(), 40, 60))
		second := w.commit(draw(rng, c.time(), 40, 60))
		const soon = 300 * time.Millisecond
		go func() {
			time.Sleep(soon)
			m.Checkpoint(Checkpoint{Durable: first.To, Decided: second.To})
			time.Sleep(soon)
			m.Apply(second)
		}()
		for _, tt := range []struct {
			rows uint64
			took time.Duration
			err  error
		}{{first.To, soon, nil}, {second.To, soon, nil}, {second.To + 1, landing, ErrUnderWay}} {
			begin, want := time.Now(), []uint64{tt.rows}
			if tt.err != nil {
				want = nil
			}
			got, err := m.Landed(t.Context(), map[uint32]uint64{0: tt.rows})
			if took := time.Since(begin); took != tt.took || !errors.Is(err, tt.err) || !slices.Equal(got, want) {
				t.Errorf("rows up to %d: %v, %v after %s, want it after %s", tt.rows, got, err, took, tt.took)
			}
		}
	})
}

// TestLandedUnheard: nothing is told before the checkpoints have been read, since
// groups that have no rows yet are behind all that have. Where no projector has ever
// said anything, the rows are all that is known.
func TestLandedUnheard(t *testing.T) {
	layout, err := slots.New(4)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		_, m, _ := newWorld(t, Limits{})
		rows := map[uint32]uint64{0: 2644}
		if got, err := m.Landed(t.Context(), rows); !errors.Is(err, ErrUnheard) {
			t.Errorf("before the checkpoints are read: %v, %v", got, err)
		}
		go func() {
			time.Sleep(landing / 2)
			m.Arrange(layout)
			m.Checkpoint(Checkpoint{Group: 0, Durable: 2644})
			close(m.heard)
		}()
		if got, err := m.Landed(t.Context(), rows); err != nil || !slices.Equal(got, []uint64{2644, 0, 0, 0}) {
			t.Errorf("of four groups one has rows: %v, %v", got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, m, _ := newWorld(t, Limits{})
		close(m.heard)
		if got, err := m.Landed(t.Context(), map[uint32]uint64{0: 40}); err != nil ||
			!slices.Equal(got, []uint64{40}) {
			t.Errorf("%v, %v", got, err)
		}
	})
}

package mirror

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// hanging is a store that may hang: what it is asked then ends with its context.
type hanging struct {
	*world
	hangs atomic.Bool
}

func (h *hanging) wait(ctx context.Context) error {
	if !h.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) QuarterCounts(ctx context.Context, source string, from time.Time, yield func(Count) error) error {
	return errors.Join(h.wait(ctx), h.world.QuarterCounts(ctx, source, from, yield))
}

func (h *hanging) Sets(
	ctx context.Context, source string, spans []funnel.Span, yield func(string, uint64, *funnel.Set) error,
) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.world.Sets(ctx, source, spans, yield)
}

func (h *hanging) SingleEvents(
	ctx context.Context, from, to time.Time, cut []uint64, limit int, yield func(Event) error,
) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.world.SingleEvents(ctx, from, to, cut, limit, yield)
}

// TestGoesOnWithoutDatabase: while the database hangs, windows that nobody has asked for
// are answered from memory, hour after hour, with all that deltas bring. A begin that
// memory does not hold is earlier, and says so. Askers do not wait for a load that others
// have waited for.
func TestGoesOnWithoutDatabase(t *testing.T) {
	for name, limits := range map[string]Limits{"exact": {}, "sketched": {Articles: 80}} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { goesOn(t, limits) }) })
	}
}

func goesOn(t *testing.T, limits Limits) {
	w, m, c := newWorld(t, limits)
	m.cfg.LoadTimeout = time.Minute
	h := &hanging{world: w}
	m.store = h
	rng := rand.New(rand.NewPCG(7, 3))
	m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 600, 300)).To})
	m.Missed()
	reload(t, m)
	ask := func(source, period string, within time.Duration) Answer {
		t.Helper()
		began := time.Now()
		a, err := m.Funnel(t.Context(), source, of(period, "UTC"), Auto)
		if took := time.Since(began); err != nil || took > within {
			t.Fatalf("%s of %q at %s, after %s: %v", period, source, c.time(), took, err)
		}
		ofItsPosition(t, w, source, a)
		return a
	}
	periods := []string{"24h", "7d", "30d"}
	if limits.Articles > 0 { // that of a window of which no sketch is held is not known
		for _, period := range periods {
			ask("", period, time.Minute)
		}
	}
	ask("source-1", "today", time.Minute)
	h.hangs.Store(true)
	for hour := range 10 {
		c.advance(20 * time.Minute)
		m.check()
		m.Apply(w.commit(draw(rng, c.time(), 5, 300)))
		if limits.Articles > 0 && hour == 8 { // 24h would be more than an eighth longer by now
			periods = periods[1:]
		}
		for i, period := range periods {
			within := brief
			if hour == 0 && i == 0 {
				within = patience
			}
			a := ask("", period, within)
			late := a.Window.From.Sub(a.From)
			if !a.Widened || late <= 0 || late > a.Window.To.Sub(a.Window.From)/8 || a.Folded != w.seq {
				t.Errorf("%s at %s: from %s, widened %t, up to %d of %d", period, a.Window.From, a.From, a.Widened,
					a.Folded, w.seq)
			}
			ask("", period, 0) // nobody waits any more
		}
		if a := ask("source-1", "today", 0); a.Widened {
			t.Errorf("from %s", a.From)
		}
	}
	h.hangs.Store(false)
	time.Sleep(2 * time.Minute) // what was asked ends
	if a := ask("", "24h", 0); a.Widened || !a.From.Equal(a.Window.From) {
		t.Errorf("from %s, want %s", a.From, a.Window.From)
	}
}

// TestGoesOnBesideLoading: what answers takes deltas while everything is loaded again, and
// none behind one that it has missed.
func TestGoesOnBesideLoading(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	rng := rand.New(rand.NewPCG(7, 4))
	m.Checkpoint(Checkpoint{Durable: w.commit(draw(rng, c.time(), 50, 60)).To})
	m.Missed()
	reload(t, m)
	position := func(want uint64) {
		t.Helper()
		a, err := m.Funnel(t.Context(), "", of("today", "UTC"), Auto)
		if err != nil || a.Folded != want {
			t.Errorf("up to %d, want %d: %v", a.Folded, want, err)
		}
		ofItsPosition(t, w, "", a)
	}
	w.fail = errAway
	m.Missed()
	m.Apply(w.commit(draw(rng, c.time(), 50, 60)))
	position(w.seq)
	w.during = func() {
		w.during = nil
		m.Apply(w.commit(draw(rng, c.time(), 50, 60)))
		position(w.seq)
	}
	if err := m.Reload(); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	last := w.seq
	w.commit(draw(rng, c.time(), 50, 60)) // missed
	m.Apply(w.commit(draw(rng, c.time(), 50, 60)))
	position(last)
	w.fail = nil
	reload(t, m)
	position(w.seq)
}

// TestOtherBaseline: what was loaded under one baseline takes no delta of another.
func TestOtherBaseline(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	rng := rand.New(rand.NewPCG(7, 5))
	first := w.commit(draw(rng, c.time(), 50, 60))
	copied, rows := append([]landed(nil), w.events...), w.copyRows()
	m.Checkpoint(Checkpoint{Durable: first.To})
	m.Missed()
	reload(t, m)
	m.Apply(w.commit(draw(rng, c.time(), 50, 60)))
	w.events, w.rows = copied, rows // ClickHouse is put back from a copy
	last := w.seq
	m.Checkpoint(Checkpoint{Durable: last, Baseline: funnel.Baseline{Number: 1, Missing: 50}})
	m.Apply(w.commit(draw(rng, c.time(), 50, 60)))
	if got := m.Position().Folded; got != last || m.Missing()[0] != 50 {
		t.Errorf("what was loaded before is at %d, want %d; missing: %v", got, last, m.Missing())
	}
	reload(t, m)
	check(t, w, m, c.time(), Auto)
	m.Apply(w.commit(draw(rng, c.time(), 50, 60)))
	check(t, w, m, c.time(), Auto)
	m.Checkpoint(Checkpoint{Durable: w.seq, Baseline: funnel.Baseline{Number: 1, Missing: 50}})
	if m.wanted() {
		t.Error("the same baseline is loaded again")
	}
}

func (w *world) copyRows() map[rowKey]*row {
	out := map[rowKey]*row{}
	for k, r := range w.rows {
		out[k] = &row{events: r.events, set: *r.set.Clone(), seq: r.seq}
	}
	return out
}

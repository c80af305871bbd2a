package mirror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a store that counts the loads of series.
type counted struct {
	*world
	loads atomic.Int64
}

func (c *counted) QuarterCounts(ctx context.Context, source string, from time.Time, yield func(Count) error) error {
	c.loads.Add(1)
	return c.world.QuarterCounts(ctx, source, from, yield)
}

// TestSourcesDoNotEvictOneAnother: single sources that have more articles
// together than are held stay all the same, and what of them is not held is
// estimated.
func TestSourcesDoNotEvictOneAnother(t *testing.T) {
	for _, articles := range [][]int{{60, 60, 60, 60}, {115, 5}} {
		t.Run(fmt.Sprint(articles), func(t *testing.T) {
			w, m, c := newWorld(t, Limits{Articles: 100})
			store := &counted{world: w}
			m.store = store
			if err := m.Reload(); err != nil {
				t.Fatal(err)
			}
			askAll := func() {
				for source := range articles {
					for _, period := range []string{"24h", "30d"} {
						name := fmt.Sprint("source-", source)
						a, err := m.Funnel(t.Context(), name, of(period, "UTC"), Auto)
						if err != nil {
							t.Fatal(err)
						}
						if want := w.recount(name, a.From)[0]; a.Stages[0] != want {
							t.Errorf("%s of %s: %v (exact %v), want %v", period, name, a.Stages[0], a.Exact, want)
						}
					}
				}
			}
			askAll()
			loads := store.loads.Load()
			var events []Event
			for source, n := range articles {
				for i := range n {
					at := c.time().Add(-time.Duration(i) * 20 * time.Minute)
					events = append(
						events,
						Event{
							At: at.UnixNano(), Stage: pipeline[0], Source: fmt.Sprint("source-", source),
							Article: mix(uint64(i)),
						},
					)
				}
			}
			m.Apply(w.commit(events))
			for range 10 {
				m.check()
				askAll()
			}
			if n := store.loads.Load(); n != loads {
				t.Errorf("loaded %d times more", n-loads)
			}
			if n := m.Stats().Articles - m.state.series[""].articles.size; n > 125 {
				t.Errorf("%d articles of single sources are held", n)
			}
		})
	}
}

// stuck is a store that does not get done with the articles of single sources.
type stuck struct {
	*world
	scans atomic.Int64 // of single sources
}

func (s *stuck) LastSeen(
	ctx context.Context, source string, from, to time.Time, cut []uint64, yield func(string, uint32, []uint64) error,
) error {
	if source == "" {
		return s.world.LastSeen(ctx, source, from, to, cut, yield)
	}
	s.scans.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// TestSourcesDoNotHoldUpAll: that many single sources are asked for, which then
// nobody waits for, does not keep the views of all sources waiting, and there is
// an end to how many are loaded.
func TestSourcesDoNotHoldUpAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, c := newWorld(t, Limits{Articles: 50})
		events := draw(rand.New(rand.NewPCG(8, 1)), c.time(), 400, 300)
		for i := range events {
			events[i].Source = fmt.Sprint("source-", i%50)
		}
		m.Checkpoint(Checkpoint{Durable: w.commit(events).To})
		if err := m.Reload(); err != nil {
			t.Fatal(err)
		}
		store := &stuck{world: w}
		m.store = store
		ask := func(source, period string) (Answer, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return m.Funnel(ctx, source, of(period, "UTC"), Auto)
		}
		busy := 0
		for i := range 50 {
			_, err := ask(fmt.Sprint("source-", i), "24h")
			switch {
			case errors.Is(err, ErrBusy):
				busy++
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("source %d: %v", i, err)
			}
		}
		if busy == 0 || m.Stats().Sources > maxLoading {
			t.Errorf("%d of 50 sources were refused, %d are held", busy, m.Stats().Sources)
		}
		for _, period := range []string{"24h", "30d"} { // the latter takes a sketch, too
			a, err := ask("", period)
			if err != nil {
				t.Fatalf("%s of all sources: %v", period, err)
			}
			for i, want := range w.recount("", a.From) {
				if got := a.Stages[i]; got.Events != want.Events || !within(got.Articles, want.Articles) {
					t.Errorf("%s of all sources, stage %d: %+v, want %+v", period, i, got, want)
				}
			}
		}
	})
}

// TestEmptySourceIsNotScanned: of a source without any event the articles are not
// looked for among those of all others.
func TestEmptySourceIsNotScanned(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	m.Checkpoint(Checkpoint{Durable: w.commit(draw(rand.New(rand.NewPCG(8, 2)), c.time(), 50, 60)).To})
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	m.cfg.LoadTimeout = time.Millisecond // of a scan, which does not end
	store := &stuck{world: w}
	m.store = store
	a, err := m.Funnel(t.Context(), "nobody", of("30d", "UTC"), Auto)
	if want := make([]Stage, len(pipeline)); err != nil || !reflect.DeepEqual(a.Stages, want) ||
		store.scans.Load() > 0 {
		t.Errorf("%v after %d scans, %v", a.Stages, store.scans.Load(), err)
	}
	m.Apply(w.commit([]Event{{At: c.time().UnixNano(), Stage: pipeline[0], Source: "nobody", Article: 7}}))
	if a, err = m.Funnel(t.Context(), "nobody", of("30d", "UTC"), Auto); err != nil ||
		a.Stages[0] != (Stage{1, 1}) {
		t.Errorf("its first event: %v, %v", a.Stages, err)
	}
}

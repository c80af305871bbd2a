package mirror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// interrupted is a store with something happening when single events have been
// read.
type interrupted struct {
	*world
	after func()
}

func (s *interrupted) SingleEvents(
	ctx context.Context, from, to time.Time, cut []uint64, limit int, yield func(Event) error,
) error {
	err := s.world.SingleEvents(ctx, from, to, cut, limit, yield)
	s.after()
	return err
}

// sameMoment compares an answer with a recount of all that there is.
func sameMoment(t *testing.T, w *world, source string, a Answer) {
	t.Helper()
	if want := w.recount(source, a.From); a.Folded != w.seq || !reflect.DeepEqual(a.Stages, want) {
		t.Errorf("%q: %v up to %d, want %v up to %d", source, a.Stages, a.Folded, want, w.seq)
	}
}

// TestLateWhileLoading holds invariant 4 while events of the quarter that is
// being read come late, and that there is an end to reading it again.
func TestLateWhileLoading(t *testing.T) {
	for _, late := range []int{1, maxRenewed, 100} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			w, m, c := newWorld(t, Limits{})
			m.Checkpoint(Checkpoint{Durable: w.commit(draw(rand.New(rand.NewPCG(6, 1)), c.time(), 200, 60)).To})
			if err := m.Reload(); err != nil {
				t.Fatal(err)
			}
			period := windowOf("24h", "UTC", c.time())
			n := 0
			m.store = &interrupted{w, func() {
				if n++; n <= late {
					m.Apply(
						w.commit(
							[]Event{
								{
									At: period.From.UnixNano() + int64(n), Stage: pipeline[0], Source: "source-1",
									Article: mix(uint64(1000 + n)),
								},
							},
						),
					)
				}
			}}
			a, err := m.Funnel(t.Context(), "", of("24h", "UTC"), Auto)
			if late > maxRenewed {
				if !errors.Is(err, ErrBusy) || n != 1+maxRenewed {
					t.Errorf("read %d times: %v, %v", n, a.Stages, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sameMoment(t, w, "", a)
		})
	}
}

// TestEvictedWhileLoading holds invariant 4 for a source that makes room for
// another one while the first quarter of its window is being read.
func TestEvictedWhileLoading(t *testing.T) {
	w, m, c := newWorld(t, Limits{Sources: 1})
	m.Checkpoint(Checkpoint{Durable: w.commit(draw(rand.New(rand.NewPCG(6, 2)), c.time(), 200, 60)).To})
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	ask := func(source, period string) Answer {
		a, err := m.Funnel(t.Context(), source, of(period, "UTC"), Auto)
		if err != nil {
			t.Error(err)
		}
		return a
	}
	ask("source-1", "today")
	m.store = &interrupted{w, func() {
		ask("source-2", "today")
		m.Apply(
			w.commit([]Event{{At: c.time().UnixNano(), Stage: pipeline[0], Source: "source-1", Article: mix(1000)}}),
		)
	}}
	sameMoment(t, w, "source-1", ask("source-1", "24h"))
}

// TestLateBeforeLoading: what comes late while a quarter waits to be read is no
// reason to read it once more.
func TestLateBeforeLoading(t *testing.T) {
	w, m, c := newWorld(t, Limits{})
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	reads := 0
	m.store = &interrupted{w, func() { reads++ }}
	for range loadsAtOnce {
		m.places.partials <- struct{}{}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	period := windowOf("24h", "UTC", c.time())
	for i := range 5 {
		if _, err := m.Funnel(gone, "", of("24h", "UTC"), Auto); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		m.Apply(
			w.commit(
				[]Event{
					{
						At: period.From.UnixNano() + int64(i), Stage: pipeline[0], Source: "source-1",
						Article: mix(uint64(i)),
					},
				},
			),
		)
	}
	for range loadsAtOnce {
		<-m.places.partials
	}
	a, err := m.Funnel(t.Context(), "", of("24h", "UTC"), Auto)
	if err != nil {
		t.Fatal(err)
	}
	sameMoment(t, w, "", a)
	if m.stop(); reads != 1 {
		t.Errorf("read %d times", reads)
	}
}

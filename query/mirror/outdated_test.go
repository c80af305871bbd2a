package mirror

import (
	"context"
	"errors"
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

func (s *interrupted) SingleEvents(ctx context.Context, from, to time.Time, cut []uint64, limit int, yield func(Event) error) error {
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
		m.places.edges <- struct{}{}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	period := windowOf("24h", "UTC", c.time())
	for i := range 5 {
		if _, err := m.Funnel(gone, "", period, Auto); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		m.Apply(w.commit([]Event{{At: period.From.UnixNano() + int64(i), Stage: pipeline[0], Source: "source-1", Article: mix(uint64(i))}}))
	}
	for range loadsAtOnce {
		<-m.places.edges
	}
	a, err := m.Funnel(t.Context(), "", period, Auto)
	if err != nil {
		t.Fatal(err)
	}
	sameMoment(t, w, "", a)
	if m.stop(); reads != 1 {
		t.Errorf("read %d times", reads)
	}
}

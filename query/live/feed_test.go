package live

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
)

// TestDrains: a reader who has pages to catch up with does not keep a server from
// ending, whether or not anything of them is for him.
func TestDrains(t *testing.T) {
	f := NewTransitions(TransitionsConfig{Poll: time.Millisecond}, func(context.Context) (queue.Place, error) { return queue.Place{}, nil })
	draining := make(chan struct{})
	close(draining)
	pages := 0
	at, err := f.serve(t.Context(), draining, queue.Place{},
		func(_ context.Context, after queue.Place) ([]Transition, error) {
			if pages++; pages > 1 {
				return nil, errors.New("it goes on")
			}
			events := make([]Transition, TransitionPage)
			for i := range events {
				events[i].Place = queue.Place{TX: 1, ID: after.ID + int64(i) + 1}
			}
			return events, nil
		}, httptest.NewRecorder())
	if err != nil || at.ID != TransitionPage || pages != 1 {
		t.Errorf("%d pages up to %s, %v", pages, at, err)
	}
}

package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// retired remembers which events the table no longer has.
type retired struct {
	mu     sync.Mutex
	before time.Time
	asked  time.Time
}

// askRetired is how often it is asked for: well within the time that events
// stay in the table after they have been retired.
const askRetired = time.Minute

// retiredBefore returns the time before which single events are gone.
func (s *Service) retiredBefore(ctx context.Context) (time.Time, error) {
	r := &s.retired
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < askRetired {
		return r.before, nil
	}
	before, err := s.store.RetiredBefore(ctx)
	if err != nil {
		return time.Time{}, err
	}
	r.before, r.asked = before, time.Now()
	return before, nil
}

// widen fits a window to what is left of retired events: whole quarters of an
// hour, whose articles are sketches.
func widen(w reads.Window, uniques mirror.Uniques, before time.Time) (reads.Window, mirror.Uniques) {
	if !w.From.Before(before) {
		return w, uniques
	}
	quarter := time.Duration(funnel.Quarter) * time.Second
	w.From = w.From.Truncate(quarter)
	if to := w.To.Truncate(quarter); to.Before(w.To) && w.To.Before(before) {
		w.To = to.Add(quarter)
	}
	return w, mirror.Sketch
}

package dlq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Bounds on counting letters by reason.
const (
	countAtOnce = 5_000 // letters that one read looks at
	mostReasons = 50    // reasons that are told apart; letters have them from messages
)

// Reasons of letters that are not counted by their own.
const (
	otherReason = "other"     // none, or one too many
	uncounted   = "uncounted" // the letter has not been looked at yet
)

// counts are the letters by reason, as far as they were looked at. One goroutine uses it.
type counts struct {
	before jetstream.StreamState // when it last looked
	seen   uint64                // letters up to this sequence are counted
	read   uint64                // how many these are
	by     map[string]uint64
}

// Gauges returns the gauges of dead letters: millrace_dlq_messages of all, and
// millrace_dlq_letters by reason.
func (s *Service) Gauges() sampler.Source {
	all := sampler.NewGauge("millrace_dlq_messages", "Dead letters in the DLQ stream.")
	by := sampler.NewGauge("millrace_dlq_letters",
		"Dead letters in the DLQ stream, by the rule that they break.", "reason")
	c := &counts{}
	var turn sync.Mutex
	return sampler.Source{
		Name: "dead letters", Gauges: []*sampler.Gauge{all, by},
		Read: func(ctx context.Context, set sampler.Set) error {
			turn.Lock()
			defer turn.Unlock()
			st, err := s.stream(ctx)
			if err != nil {
				return err
			}
			state := st.CachedInfo().State
			if err := c.update(ctx, s, state); err != nil {
				return err
			}
			set(all, float64(state.Msgs))
			for reason, n := range c.by {
				set(by, float64(n), reason)
			}
			if left := state.Msgs - min(state.Msgs, c.read); left > 0 {
				set(by, float64(left), uncounted)
			}
			return nil
		},
	}
}

// update looks at letters that it has not counted. When letters were removed it begins
// again, since the stream does not say which.
func (c *counts) update(ctx context.Context, s *Service, state jetstream.StreamState) error {
	if state.FirstSeq != c.before.FirstSeq || state.NumDeleted != c.before.NumDeleted || state.LastSeq < c.seen {
		*c = counts{by: map[string]uint64{}}
	}
	c.before = state
	if c.by == nil {
		c.by = map[string]uint64{}
	}
	left := countAtOnce
	from := max(c.seen+1, state.FirstSeq)
	err := s.scan(ctx, stream.DLQSubjects, from, state.LastSeq, func(letters []found) (bool, error) {
		for _, l := range letters {
			c.by[c.reason(l.Code)]++
			c.seen, c.read = l.ID, c.read+1
		}
		left -= len(letters)
		return left > 0, nil
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // what is left is for the next read
		return fmt.Errorf("count dead letters by reason: %w", err)
	}
	return nil
}

// reason returns the label of a code.
func (c *counts) reason(code string) string {
	if _, known := c.by[code]; code == "" || !known && len(c.by) >= mostReasons {
		return otherReason
	}
	return code
}

package assignment

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace-io/millrace/schemas/slots"
)

// errOutdated is the error of a layout older than one that has been read. In a
// cluster any server with a copy of the bucket answers, and its copy may lag
// behind the one that was written.
var errOutdated = errors.New("a NATS server answers with an outdated layout of slot groups")

// look reads the layout, finds the groups that may be folded at present, and
// takes part in a change.
func (s *share) look(ctx context.Context) error {
	l, err := ReadLayout(ctx, s.kv)
	if err != nil {
		return err
	}
	if len(l.Epochs) <= s.after { // also none at all, though one was agreed on
		return errOutdated
	}
	if l.Next > 0 {
		return s.cut(ctx, l)
	}
	s.asked = time.Time{}
	before := len(l.Epochs) - 1
	if s.open != nil && s.after == before {
		return nil
	}
	if s.open, err = Left(ctx, s.kv, l); err != nil {
		return err
	}
	s.drop()
	current := l.Current()
	if len(s.open) > 0 || !s.forget(current[0].ID) {
		return nil
	}
	s.after, s.open = before, current
	if before > 0 {
		s.a.log.Info("the slot groups begin", "slot_groups", len(current), "after", current[0].After)
	}
	return nil
}

// cut closes the groups that are to end, and begins those that have been asked for
// behind them (invariants 2 and 5 of package slots).
func (s *share) cut(ctx context.Context, l slots.Layout) error {
	if s.asked.IsZero() {
		s.asked = time.Now()
		s.a.log.Info("another number of slot groups has been asked for", "slot_groups", l.Next)
	}
	s.open = nil
	if s.drop(); len(s.workers) > 0 {
		return nil
	}
	_, err := CutLayout(ctx, s.kv, s.mayClose)
	return err
}

// mayClose tells whether this process may close a group. It gives another owner some
// time to close the group itself: an owner of an earlier release does not do so.
func (s *share) mayClose(g slots.Group, lease *Lease) bool {
	return !s.held(g, lease) || time.Since(s.asked) > s.a.cfg.Lease/2
}

// drop ends the workers whose groups have gone from the layout, or have got an end,
// after they have completed what they have begun.
func (s *share) drop() {
	for _, w := range s.workers {
		if !slices.Contains(s.open, w.group) {
			w.dropped = true
			w.cancel()
		}
	}
}

// forget removes what is stored for groups that have ended, those with a smaller
// id. It returns false while one of them is in use.
func (s *share) forget(first uint32) bool {
	for id := range s.workers {
		if id < first {
			return false
		}
	}
	s.a.cfg.Forget(first)
	return true
}

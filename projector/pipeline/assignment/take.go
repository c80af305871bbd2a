package assignment

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/slots"
)

// take becomes the owner of a group that has none, and starts a worker.
func (s *share) take(ctx context.Context, g slots.Group) error {
	if time.Now().Before(s.watch(g).retryAt) {
		return nil
	}
	lease, err := OpenLease(ctx, s.kv, g, s.owner)
	if errors.Is(err, fold.ErrDamaged) {
		s.a.damages.note(s.a.log, g, err)
		return nil
	}
	if err != nil {
		return err
	}
	s.a.damages.note(s.a.log, g, lease.Damage())
	if lease.Record().Closing && g.Upto == 0 { // the layout has changed just now
		return nil
	}
	if s.held(g, lease) {
		return nil
	}
	damaged := lease.Damage() != nil
	if err := lease.Take(ctx); err != nil {
		return err
	}
	if damaged {
		from, to := lease.Position()
		s.a.log.Warn("the position of a slot group was written again as it was before", "group", g.ID,
			"from", from, "to", to)
		s.a.damages.note(s.a.log, g, nil)
	}
	s.beaten = time.Time{}
	s.start(g, lease)
	return nil
}

// held tells whether another process owns a group and is alive.
func (s *share) held(g slots.Group, lease *Lease) bool {
	w := s.watch(g)
	if lease.Revision() != w.revision || w.since.IsZero() {
		w.revision, w.since = lease.Revision(), time.Now()
	}
	owner := lease.Record().Owner
	return owner != "" && owner != s.owner && time.Since(w.since) <= s.a.cfg.Lease
}

func (s *share) watch(g slots.Group) *watch {
	w := s.watched[g.ID]
	if w == nil {
		w = &watch{loop: retry.NewLoop(s.work)}
		s.watched[g.ID] = w
	}
	return w
}

package pipeline

import (
	"context"
	"errors"
	"time"

	contract "github.com/millrace-io/millrace/schemas/funnel"

	"github.com/millrace-io/millrace/internal/retry"
)

const (
	// auditEvery is the least time between two audits of a group.
	auditEvery = 15 * time.Second
	// auditShare is how many times as long as an audit takes passes at least until the next.
	auditShare = 100
	// auditAgain is the time until an audit that has found another number is repeated, and
	// auditTimes how often it has to find that number in a row: a replica that lags behind
	// has the rows a moment later.
	auditAgain = 5 * time.Second
	auditTimes = 3
	// auditLimit bounds an audit.
	auditLimit = 10 * time.Minute
)

// errRebased ends a session whose rows in ClickHouse are not those of before.
var errRebased = errors.New("the rows in ClickHouse are not those that the views rest on")

// audit compares the events that the group has counted with those that ClickHouse has, from
// time to time. It returns how many are missing when that is another number than the
// checkpoint's baseline says, and false when ctx ends. ClickHouse was put back from a copy
// then, or rows were deleted, or are there again.
func (s *session) audit(ctx context.Context, baseline contract.Baseline) (missing uint64, changed bool) {
	every := s.p.cfg.AuditEvery
	wait := every
	if baseline.Missing > 0 {
		wait = 0 // what was missing may be there again
	}
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for found, times := baseline.Missing, 0; ; {
		select {
		case <-ctx.Done():
			return 0, false
		case <-time.After(wait):
		}
		began := time.Now()
		now, err := s.missing(ctx)
		wait = max(every, time.Duration(s.p.cfg.AuditShare)*time.Since(began))
		switch {
		case err != nil:
			loop.Failed(err)
			s.log.Debug("ClickHouse is not audited; trying again", "error", err)
			continue
		}
		loop.Well()
		switch {
		case now == baseline.Missing:
			times = 0
			continue
		case now != found:
			found, times = now, 0
		}
		if times++; times == auditTimes {
			return found, true
		}
		wait = max(min(every, auditAgain), time.Since(began))
	}
}

// missing counts the events that were counted and that ClickHouse lacks.
func (s *session) missing(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, auditLimit)
	defer cancel()
	known := s.checkpoint.Known() // before ClickHouse is asked, which has these by then
	stored, err := s.db.Stored(ctx, s.group, known.At)
	if err != nil || known.At == 0 {
		return 0, err
	}
	counted := known.Identities.Count
	missing := counted - min(counted, stored)
	s.p.metrics.audited(s.group, counted, missing)
	return missing, nil
}

// rebase begins another baseline of the group, when the session has ended because of it.
func (s *session) rebase(ctx context.Context, missing uint64) error {
	if missing > s.checkpoint.Record().View.Baseline.Missing {
		s.log.Error("ClickHouse lacks events that were counted: was it put back from a copy, or were rows deleted? "+
			"Restore them, or run millrace accept-identities (docs/recovery.md)", "missing", missing)
	} else {
		s.log.Info("ClickHouse has more of the events that were counted than before", "missing", missing)
	}
	if err := s.checkpoint.Rebase(ctx, missing); err != nil {
		return err
	}
	return errRebased
}

package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/pglease"
	"github.com/millrace-io/millrace/schemas/source"
	"github.com/millrace-io/millrace/schemas/stream"
)

// message is a message of the stream as an event, or the rule that it breaks.
type message struct {
	fold.Message
	event  jobs.Event
	rule   *source.Invalid // that the message breaks
	skip   bool            // it is no event, or one that Postgres refuses
	buried bool            // it is a dead letter
}

func parse(m fold.Message) message {
	told, rule := source.ReadEvent(m.Data)
	return message{
		Message: m, event: jobs.Event{Told: told, Seq: int64(m.Seq), Stored: time.Unix(0, m.Time).UTC()},
		rule: rule, skip: rule != nil,
	}
}

// follow folds the stream, for one session.
func (s *Service) follow(ctx context.Context) error {
	return pglease.Fold(ctx, pglease.Config{
		Stream: stream.Sources, Consumer: "jobs", BatchMessages: block, First: s.acknowledged,
	}, pglease.Deps{NATS: s.nc, JS: s.js, Postgres: s.store.Pool(), Log: s.log}, s.applyBatch)
}

func (s *Service) applyBatch(ctx context.Context, lease *pglease.Lease, b pglease.Batch) error {
	all := make([]message, len(b.Messages))
	for i, m := range b.Messages {
		all[i] = parse(m)
		s.metrics.received.WithLabelValues(kind(all[i].event.Type)).Inc()
	}
	return s.apply(ctx, all, lease, b.To)
}

// errBury undoes a transaction in which an event has died that is no dead letter yet.
var errBury = errors.New("an event is to become a dead letter first")

// apply applies events in one transaction, or one by one if Postgres refuses it. What
// breaks a rule becomes a dead letter before that. The transaction moves the position of
// the lease; nil: the position has passed these events, which have waited.
func (s *Service) apply(ctx context.Context, all []message, lease *pglease.Lease, to uint64) error {
	for {
		if err := s.bury(ctx, all, lease); err != nil {
			return err
		}
		began := time.Now()
		outcomes, counts, err := s.handle(ctx, all, lease, to)
		switch {
		case errors.Is(err, errBury):
		case err == nil:
			s.metrics.observe(all, outcomes, counts, time.Since(began))
			return nil
		case !dbpool.Refused(err):
			return err
		case len(all) > 1:
			return s.applySingly(ctx, all, lease, to)
		default:
			s.log.Error("Postgres refuses an event of a source", "event_id", all[0].event.ID, "error", err)
			all[0].rule = &source.Invalid{Code: "refused", Rule: "must be what Postgres takes"}
			all[0].skip = true
		}
	}
}

// handle applies the events that break no rule, and returns what became of each message
// in all. Of an event that dies it notes the rule, and returns errBury.
func (s *Service) handle(
	ctx context.Context, all []message, lease *pglease.Lease, to uint64,
) (outcomes []jobs.Outcome, counts jobs.Counts, err error) {
	var events []jobs.Event
	var from []int // places in all
	for i, m := range all {
		if !m.skip {
			events, from = append(events, m.event), append(from, i)
		}
	}
	_, counts, err = s.store.Handle(ctx, events, func(done []jobs.Outcome, b *pgx.Batch) (err error) {
		outcomes = slices.Repeat([]jobs.Outcome{jobs.Dead}, len(all))
		for i, outcome := range done {
			m := &all[from[i]]
			outcomes[from[i]] = outcome
			if outcome == jobs.Dead && !m.buried {
				m.rule, err = m.died(), errBury
			}
		}
		if err == nil && lease != nil {
			lease.Move(b, to)
		}
		return err
	})
	if lease != nil {
		err = lease.Moved(err, to)
	}
	return outcomes, counts, err
}

// applySingly applies each event in a transaction of its own.
func (s *Service) applySingly(ctx context.Context, all []message, lease *pglease.Lease, to uint64) error {
	for i := range all {
		at := all[i].Seq
		if i == len(all)-1 {
			at = to
		}
		if err := s.apply(ctx, all[i:i+1], lease, at); err != nil {
			return err
		}
	}
	return nil
}

// bury puts messages that break a rule into the dead-letter stream, each once.
func (s *Service) bury(ctx context.Context, all []message, lease *pglease.Lease) error {
	var letters []deadletter.Letter
	for _, m := range all {
		if m.rule != nil && !m.buried {
			letters = append(letters, m.Letter(stream.Sources, *m.rule))
		}
	}
	if len(letters) == 0 {
		return nil
	}
	if lease != nil { // what another process has applied meanwhile may break no rule
		if err := lease.Renew(ctx); err != nil {
			return err
		}
	}
	if err := deadletter.Publish(ctx, s.js, letters, s.log); err != nil {
		return err
	}
	for i := range all {
		all[i].buried = all[i].rule != nil
	}
	for _, l := range letters {
		s.log.Warn("an event of a source is a dead letter", "subject", l.Subject, "sequence", l.Seq, "field",
			l.Reason.Field, "rule", l.Reason.Rule)
	}
	return nil
}

// unknown is the rule that an event breaks whose source does not become known.
var unknown = source.Invalid{
	Field: "source_id", Code: "source_unknown", Rule: "must be that of a source which was created and not deleted",
}

// early is the rule that an event from the future breaks.
var early = source.Invalid{
	Field: "timestamp", Code: "time_future",
	Rule: fmt.Sprintf("must not be in the future when the stream takes the event (%s of clock skew are allowed)",
		source.ClockSkew),
}

// died returns the rule that a dead event breaks.
func (m *message) died() *source.Invalid {
	if m.event.Early() {
		return &early
	}
	return &unknown
}

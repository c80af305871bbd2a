package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/projector/deadletter"
	"github.com/millrace-io/millrace/schemas/source"
	"github.com/millrace-io/millrace/schemas/stream"
)

// block is how many events one transaction applies at most.
const block = 500

// again is when a message comes again that could not be processed yet.
const again = time.Second

// message is a message of the stream that is to be processed.
type message struct {
	jetstream.Msg
	event jobs.Event
}

// apply processes messages. Whatever fails comes again.
func (s *Service) apply(ctx context.Context, all []jetstream.Msg) {
	var good []message
	var broken []deadletter.Letter
	var refused []jetstream.Msg
	for _, m := range all {
		meta, err := m.Metadata()
		if err != nil {
			s.log.Error("a message of the stream has no place on it", "subject", m.Subject(), "error", err)
			_ = m.Term()
			continue
		}
		told, rule := source.ReadEvent(m.Data())
		s.metrics.received.WithLabelValues(kind(told.Type)).Inc()
		one := message{m, jobs.Event{Told: told, Seq: int64(meta.Sequence.Stream), Stored: meta.Timestamp.UTC()}}
		if rule != nil {
			broken, refused = append(broken, letter(one, *rule)), append(refused, m)
			continue
		}
		good = append(good, one)
	}
	s.bury(ctx, broken, refused)
	if len(good) > 0 {
		s.handle(ctx, good)
	}
}

func letter(m message, rule source.Invalid) deadletter.Letter {
	return deadletter.Letter{
		Stream: stream.Sources, Subject: m.Subject(), Seq: uint64(m.event.Seq), Time: m.event.Stored, Data: m.Data(),
		Reason: rule,
	}
}

// bury puts messages into the dead-letter stream, and is then done with them.
func (s *Service) bury(ctx context.Context, letters []deadletter.Letter, all []jetstream.Msg) {
	if len(letters) == 0 {
		return
	}
	if err := deadletter.Publish(ctx, s.js, letters, s.log); err != nil {
		return // ctx has ended: they come again
	}
	for i, m := range all {
		s.log.Warn("an event of a source is a dead letter", "subject", m.Subject(), "sequence", letters[i].Seq,
			"field", letters[i].Reason.Field, "rule", letters[i].Reason.Rule)
		told, _ := source.ReadEvent(m.Data())
		s.metrics.processed.WithLabelValues(kind(told.Type), "error").Inc()
		s.metrics.ended(m.Term())
	}
}

// handle applies events in one transaction, or one by one if Postgres refuses it.
func (s *Service) handle(ctx context.Context, all []message) {
	began := time.Now()
	events := make([]jobs.Event, len(all))
	for i, m := range all {
		events[i] = m.event
	}
	outcomes, counts, err := s.store.Handle(ctx, events)
	switch {
	case err == nil:
	case dbpool.Refused(err) && len(all) > 1:
		for _, m := range all {
			s.handle(ctx, []message{m})
		}
		return
	case dbpool.Refused(err):
		s.log.Error("Postgres refuses an event of a source", "event_id", all[0].event.ID, "error", err)
		s.bury(ctx, []deadletter.Letter{letter(all[0], source.Invalid{
			Code: "refused",
			Rule: "must be what Postgres takes",
		})},
			[]jetstream.Msg{all[0]})
		return
	default:
		if ctx.Err() == nil {
			s.log.Warn("events of sources are not applied, trying again", "events", len(all), "error", err)
		}
		for _, m := range all {
			s.metrics.ended(m.NakWithDelay(again))
		}
		return
	}
	s.metrics.created.Add(float64(counts.Created))
	s.metrics.updated.Add(float64(counts.Updated))
	s.settle(ctx, all, outcomes, time.Since(began))
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

// settle answers for events by their outcomes.
func (s *Service) settle(ctx context.Context, all []message, outcomes []jobs.Outcome, took time.Duration) {
	var letters []deadletter.Letter
	var dead []jetstream.Msg
	for i, m := range all {
		result := "success"
		switch outcomes[i] {
		case jobs.Waiting:
			s.metrics.ended(m.NakWithDelay(again))
			continue
		case jobs.Dead:
			rule := unknown
			if m.event.Early() {
				rule = early
			}
			letters, dead = append(letters, letter(m, rule)), append(dead, m.Msg)
			continue
		case jobs.Duplicate:
			result = "duplicate"
		}
		s.metrics.processed.WithLabelValues(m.event.Type, result).Inc()
		s.metrics.duration.WithLabelValues(m.event.Type).Observe(took.Seconds())
		s.log.Debug("event processed", "event_id", m.event.ID, "event_type", m.event.Type, "source_id",
			m.event.SourceID,
			"outcome", outcomes[i], "processing_time", took)
		s.metrics.ended(m.Ack())
	}
	s.bury(ctx, letters, dead)
}

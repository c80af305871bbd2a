package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// ReplayOptions say how letters are replayed.
type ReplayOptions struct {
	DryRun bool // only say what would be done
	// AsBackfill marks events that are too old to be taken as backfilled,
	// which may be of any age.
	AsBackfill bool
}

// Replay publishes the messages of letters again and deletes these letters.
// The report holds what was done even when there is an error; the same call
// may then be made again.
func (s *Service) Replay(ctx context.Context, sel Selection, o ReplayOptions) (LetterReport, error) {
	report := NewReport(o.DryRun)
	if len(s.cfg.Stages.Names()) == 0 {
		return report, errors.New("replay dead letters: the pipeline's stages are needed")
	}
	if err := sel.Check(); err != nil {
		return report, err
	}
	st, err := s.stream(ctx)
	if err != nil {
		return report, err
	}
	run := replay{Service: s, o: o, report: &report}
	err = s.each(ctx, st, sel, &report, func(some []found) error { return run.some(ctx, some) })
	if !o.DryRun && report.Matched > 0 {
		s.log.Info("dead letters replayed", "matched", report.Matched, "replayed", report.Replayed, "kept", report.Kept)
	}
	return report, err
}

// replay is one call of Replay.
type replay struct {
	*Service
	o      ReplayOptions
	report *LetterReport
	record event.Record
}

// some replays letters: each is published, then deleted.
func (r *replay) some(ctx context.Context, some []found) error {
	var events []client.Message
	var eventOf []*found
	var stored []uint64 // letters whose message is on its stream again
	var failure error
	for i := range some {
		f := &some[i]
		m, invalid := r.judge(f, r.o.AsBackfill, &r.record)
		switch {
		case invalid != nil:
			r.report.keep(&f.Letter, invalid)
		case r.o.DryRun:
			r.report.Replayed++
		case f.Stream == stream.Events:
			events, eventOf = append(events, m), append(eventOf, f)
		case failure == nil:
			outcome := r.publish(ctx, f, m)
			stored, failure = r.note(f, outcome, stored, failure)
		}
	}
	for i, outcome := range r.publishEvents(ctx, events) {
		stored, failure = r.note(eventOf[i], outcome, stored, failure)
	}
	deleted, err := r.deleteAll(ctx, stored)
	r.report.Deleted += deleted
	return errors.Join(failure, err)
}

// publishEvents publishes events, and once more with a key of its own each whose
// key turns out to be another's.
func (r *replay) publishEvents(ctx context.Context, events []client.Message) []client.Outcome {
	ctx, cancel := context.WithTimeout(ctx, 2*r.cfg.Timeout)
	defer cancel()
	outcomes, _ := r.publisher.PublishRaw(ctx, events) // each outcome has its error
	var own []client.Message
	var place []int
	for i, o := range outcomes {
		if !errors.Is(o.Err, client.ErrConflict) || event.Decode(events[i].Data, &r.record) != nil {
			continue
		}
		if text, invalid := event.GiveOwnKey(events[i].Data, &r.record); invalid == nil {
			own, place = append(own, client.EventMessage(&r.record, text)), append(place, i)
		}
	}
	again, _ := r.publisher.PublishRaw(ctx, own)
	for k, i := range place {
		outcomes[i] = again[k]
	}
	return outcomes
}

// note counts what became of a letter's message.
func (r *replay) note(f *found, o client.Outcome, stored []uint64, failure error) ([]uint64, error) {
	switch {
	case o.Status != client.Failed:
		r.report.Replayed++
		if o.Status == client.Duplicate {
			r.report.Duplicates++
		}
		return append(stored, f.ID), failure
	case errors.Is(o.Err, client.ErrTooLarge), errors.Is(o.Err, client.ErrRefused):
		r.report.keep(&f.Letter, &Invalid{Code: "refused", Rule: o.Err.Error()})
	case failure == nil:
		failure = fmt.Errorf("replay dead letter %d: %w", f.ID, o.Err)
	}
	return stored, failure
}

// lastingCodes are those of the server's answers that are about the message:
// it belongs to another stream, it is too large, or its header is. All others
// are about the stream, and pass.
var lastingCodes = []jetstream.ErrorCode{10060, jetstream.JSErrCodeStreamMessageExceedsMaximum, 10097}

// publish sends a message that is no event, to the stream that it came from
// and to no other.
func (r *replay) publish(ctx context.Context, f *found, m client.Message) client.Outcome {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	msg := &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header{}}
	ack, err := r.js.PublishMsg(ctx, msg, jetstream.WithMsgID(replayID(f)),
		jetstream.WithExpectStream(f.Stream), jetstream.WithRetryWait(100*time.Millisecond))
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused) && slices.Contains(lastingCodes, refused.ErrorCode),
		errors.Is(err, nats.ErrMaxPayload):
		return client.Outcome{Err: fmt.Errorf("%w: %w", client.ErrRefused, err)}
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return client.Outcome{Err: fmt.Errorf("%w: no stream takes the subject %s: %w", client.ErrRefused,
			m.Subject, err)}
	case err != nil:
		return client.Outcome{Err: err}
	case ack.Duplicate:
		return client.Outcome{Status: client.Duplicate}
	}
	return client.Outcome{Status: client.Accepted}
}

package dlq

import (
	"cmp"
	"crypto/rand"
	"strings"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// replayID is the message id under which a letter's message goes to a stream of
// others. Letters of earlier releases have none: each replay of them gets a new one.
func replayID(f *found) string {
	return cmp.Or(f.header.Get(stream.HeaderReplayID), rand.Text())
}

// judge returns the message of a letter as it would be taken now, or the rule
// that it breaks.
func (s *Service) judge(f *found, asBackfill bool, r *event.Record) (client.Message, *Invalid) {
	if f.Origin == "" {
		return client.Message{},
			&Invalid{Field: "origin", Code: "origin", Rule: "must be known: the letter does not say which stream its message came from"}
	}
	if f.Cut != 0 {
		// What is left may happen to be a message, but not the one that came.
		return client.Message{}, &Invalid{Field: "", Code: "cut", Rule: "is not whole: the letter had no room for its end"}
	}
	if f.Stream == stream.Events {
		return s.judgeEvent(f, asBackfill, r)
	}
	if !publishable(f.Subject) {
		return client.Message{}, &Invalid{Field: "subject", Code: "subject", Rule: "must be one that a stream of messages has"}
	}
	return client.Message{Subject: f.Subject, Data: f.body}, nil
}

// judgeEvent applies the projector's rules as they will be when the message is
// on the stream, so at this time. An event whose key is another's gets one of its
// own. The subject is made anew from the event: a
// wrong one is what most letters of valid events are about.
func (s *Service) judgeEvent(f *found, asBackfill bool, r *event.Record) (client.Message, *Invalid) {
	body := f.body
	invalid := event.Decode(body, r)
	if invalid == nil && f.Code == event.KeyConflict {
		body, invalid = event.GiveOwnKey(body, r)
	}
	if invalid != nil {
		return client.Message{}, invalid
	}
	invalid = r.Validate(s.cfg.Stages, s.now(), true)
	if tooOld(invalid) {
		if !asBackfill {
			return client.Message{}, s.whyTooOld(f, r)
		}
		if body, invalid = event.MarkBackfilled(body, r); invalid == nil {
			invalid = r.Validate(s.cfg.Stages, s.now(), true)
		}
	}
	if invalid != nil {
		return client.Message{}, invalid
	}
	return client.EventMessage(r, body), nil
}

func tooOld(invalid *event.Invalid) bool { return invalid != nil && invalid.Code == "time_too_old" }

// whyTooOld tells an event that has aged as a letter from one that came too
// late in the first place.
func (s *Service) whyTooOld(f *found, r *event.Record) *Invalid {
	if tooOld(r.Validate(s.cfg.Stages, f.ReceivedAt, true)) {
		return &Invalid{Field: "occurred_at", Code: "time_too_old", Rule: "was more than 24 hours in the past when the event came; " +
			"replay it as backfill (--as-backfill) to count it all the same"}
	}
	return &Invalid{Field: "occurred_at", Code: "too_old_now", Rule: "is more than 24 hours in the past by now, and was not when the " +
		"event came: too old now; replay it as backfill (--as-backfill)"}
}

// publishable keeps a forged letter from speaking to the server itself, to
// somebody's inbox, or to the dead letters.
func publishable(subject string) bool {
	first, _, _ := strings.Cut(subject, ".")
	return isPattern(subject) && checkText("subject", subject) == nil && !strings.ContainsAny(subject, "*>") &&
		!strings.HasPrefix(first, "$") && !strings.HasPrefix(first, "_") && first != "dlq"
}

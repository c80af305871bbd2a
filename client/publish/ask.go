package publish

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

const (
	// askWait is how long a publisher waits for projectors to answer. foldWait is
	// for how long, from its first question on, it asks them to fold what the
	// stream had then before they answer.
	askWait  = 200 * time.Millisecond
	foldWait = 1300 * time.Millisecond
	// awayFor is for how long a publisher does not wait for a slot again after no
	// projector has answered for it.
	awayFor = time.Second
)

// asker asks projectors which events are known (stream.KnownQuestion).
type asker struct {
	nc *nats.Conn
	js jetstream.JetStream

	mu sync.Mutex
	// begun is the stream's last sequence when the first question was asked, at
	// begunAt: repeats of what was published up to there are found.
	begun     uint64
	begunAt   time.Time
	away      stream.KnownSlots
	awayUntil time.Time
}

// ask gives the events that projectors know their outcomes, and returns the places
// of the others. An event that nobody answers for counts as not known.
func (p *Publisher) ask(ctx context.Context, msgs []Message, places []int, outcomes []Outcome) (left []int) {
	left = make([]int, 0, len(places))
	for len(places) > 0 {
		n := min(len(places), stream.MaxKnownItems)
		asked := places[:n]
		places = places[n:]
		var q stream.KnownQuestion
		var of []int // places of the question's items
		for _, i := range asked {
			if msgs[i].isEvent() {
				q.Items, of = append(q.Items, msgs[i].Event), append(of, i)
			}
		}
		for _, f := range p.asker.ask(ctx, q) {
			i := of[f.Item]
			outcomes[i] = Outcome{Status: Duplicate}
			if f.Conflict {
				outcomes[i] = Outcome{Err: &KeyConflict{Seq: f.Seq}}
			}
		}
		for _, i := range asked {
			if outcomes[i] == (Outcome{}) {
				left = append(left, i)
			}
		}
	}
	return left
}

// ask returns what is known of a question's items.
func (a *asker) ask(ctx context.Context, q stream.KnownQuestion) []stream.Found {
	var slots stream.KnownSlots
	for i := range q.Items {
		slots.Add(q.Items[i].Slot)
	}
	waitFor, limit := a.prepare(ctx, &q, slots)
	if waitFor.Len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, missing := a.collect(ctx, &q, waitFor)
	a.note(missing)
	return found
}

// prepare says in the first questions how far projectors are to fold. It returns
// the slots to wait for, without those that nobody answers for at present, and
// for how long.
func (a *asker) prepare(
	ctx context.Context, q *stream.KnownQuestion, slots stream.KnownSlots,
) (waitFor stream.KnownSlots, limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begunAt.IsZero() {
		a.begunAt = time.Now()
		ctx, cancel := context.WithTimeout(ctx, askWait)
		defer cancel()
		if s, err := a.js.Stream(ctx, stream.Events); err == nil { // else nothing is waited for
			a.begun = s.CachedInfo().State.LastSeq
		}
	}
	if time.Now().Before(a.awayUntil) {
		slots = slots.Without(a.away)
	}
	if left := foldWait - time.Since(a.begunAt); left > 0 && a.begun > 0 {
		q.NotBefore = a.begun
		return slots, left + askWait
	}
	return slots, askWait
}

// note remembers the slots that nobody has answered for in time.
func (a *asker) note(missing stream.KnownSlots) {
	if missing.Len() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.After(a.awayUntil) {
		a.away, a.awayUntil = stream.KnownSlots{}, now.Add(awayFor)
	}
	a.away.Join(missing)
}

// collect sends a question and takes answers until they cover the slots, or ctx
// ends. It returns the slots that were waited for in vain.
func (a *asker) collect(
	ctx context.Context, q *stream.KnownQuestion, slots stream.KnownSlots,
) (found []stream.Found, missing stream.KnownSlots) {
	inbox := a.nc.NewInbox()
	answers, err := a.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, missing
	}
	defer func() { _ = answers.Unsubscribe() }() // else it ends with the connection
	if err := a.nc.PublishRequest(stream.Known, inbox, q.AppendBinary(nil)); err != nil {
		return nil, missing
	}
	for missing = slots; missing.Len() > 0; {
		m, err := answers.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrNoResponders), err == nil && len(m.Data) == 0: // there are no projectors
			return found, stream.KnownSlots{}
		case err != nil:
			return found, missing
		}
		answer, err := stream.ParseKnownAnswer(m.Data, len(q.Items))
		if err != nil {
			continue
		}
		found = append(found, answer.Found...)
		missing = missing.Without(answer.Slots)
	}
	return found, missing
}

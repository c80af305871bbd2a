package publish

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/schemas/event"
)

// maxRecent bounds the events that a publisher remembers to have had
// acknowledged, some 80 bytes each.
const maxRecent = 65_536

// recent holds the events that calls are publishing, and those that were
// acknowledged last: projectors may not know them yet.
type recent struct {
	mu     sync.Mutex
	events map[event.Identity]sent
	order  []event.Identity // of those acknowledged, a ring
	next   int
	forget bool // what was acknowledged
}

// sent is an event that a call publishes, or has published.
type sent struct {
	fingerprint event.Fingerprint
	stored      bool
	ended       chan struct{} // closed when the call has its outcome; nil: nobody waits
}

func newRecent(forget bool) recent { return recent{events: map[event.Identity]sent{}, forget: forget} }

// look gives messages whose events were acknowledged before their outcomes, and
// returns the places of the others.
func (r *recent) look(msgs []Message, places []int, outcomes []Outcome) (left []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left = make([]int, 0, len(places))
	for _, i := range places {
		if s, ok := r.events[msgs[i].Event.Identity]; ok && s.stored && msgs[i].isEvent() {
			outcomes[i] = s.outcome(&msgs[i])
			continue
		}
		left = append(left, i)
	}
	return left
}

// outcome is that of a message whose event, or one with its identity, has been
// acknowledged.
func (s sent) outcome(m *Message) Outcome {
	if s.fingerprint.Conflicts(m.Event.Fingerprint) {
		return Outcome{Err: &KeyConflict{}}
	}
	return Outcome{Status: Duplicate}
}

// claims say which messages of a call are its own to publish.
type claims struct {
	mine []int
	same [][2]int              // places of messages with the identity of one of mine, and of that
	wait map[int]chan struct{} // of those whose identity another call is publishing
}

// claim has this call publish the events that no other call is publishing, and
// gives those that were acknowledged before their outcomes. The call has to release
// what it has claimed.
func (r *recent) claim(msgs []Message, places []int, outcomes []Outcome) (c claims) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := make(map[event.Identity]int, len(places))
	for _, i := range places {
		m := &msgs[i]
		if !m.isEvent() {
			c.mine = append(c.mine, i)
			continue
		}
		s, ok := r.events[m.Event.Identity]
		first, again := own[m.Event.Identity]
		switch {
		case !ok:
			r.events[m.Event.Identity] = sent{fingerprint: m.Event.Fingerprint}
			own[m.Event.Identity] = i
			c.mine = append(c.mine, i)
		case again:
			c.same = append(c.same, [2]int{i, first})
		case s.stored:
			outcomes[i] = s.outcome(m)
		default:
			if s.ended == nil {
				s.ended = make(chan struct{})
				r.events[m.Event.Identity] = s
			}
			if c.wait == nil {
				c.wait = map[int]chan struct{}{}
			}
			c.wait[i] = s.ended
		}
	}
	return c
}

// release takes note of what became of messages that a call has claimed, and has
// the calls go on that wait for them.
func (r *recent) release(msgs []Message, places []int, outcomes []Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range places {
		id := msgs[i].Event.Identity
		s, ok := r.events[id]
		if !ok || !msgs[i].isEvent() {
			continue
		}
		if s.ended != nil {
			close(s.ended)
		}
		if outcomes[i].Status == Failed || r.forget {
			delete(r.events, id)
			continue
		}
		r.events[id] = sent{fingerprint: s.fingerprint, stored: true}
		r.remember(id)
	}
}

// remember adds an event that was acknowledged, and forgets the oldest.
func (r *recent) remember(id event.Identity) {
	if len(r.order) < maxRecent {
		r.order = append(r.order, id)
		return
	}
	delete(r.events, r.order[r.next])
	r.order[r.next] = id
	r.next = (r.next + 1) % maxRecent
}

// copies gives messages the outcome of the one with their identity that the call
// has published.
func (c *claims) copies(msgs []Message, outcomes []Outcome) {
	for _, pair := range c.same {
		i, first := pair[0], pair[1]
		if outcomes[i] = outcomes[first]; outcomes[first].Status != Failed {
			outcomes[i] = sent{fingerprint: msgs[first].Event.Fingerprint}.outcome(&msgs[i])
		}
	}
}

// await waits for what other calls publish, and returns the places of those
// messages, to claim them again.
func (c *claims) await(ctx context.Context, outcomes []Outcome) (left []int) {
	for i, ended := range c.wait {
		select {
		case <-ended:
			left = append(left, i)
		case <-ctx.Done():
			outcomes[i] = Outcome{Err: fmt.Errorf("another call is publishing the same event: %w", unknown(ctx))}
		}
	}
	return left
}

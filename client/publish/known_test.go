package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// projector answers for the slots that leave a remainder, from what it is told.
// It stands for real ones, which the tests of package projector/pipeline and those of the whole
// program have, to be slow, silent or partial.
type projector struct {
	mu        sync.Mutex
	number    int
	of        int
	events    map[event.Identity]event.Fingerprint
	notBefore []uint64 // of the questions
}

func answering(t *testing.T, nc *nats.Conn, number, of int, events ...stream.KnownItem) *projector {
	t.Helper()
	p := &projector{number: number, of: of, events: map[event.Identity]event.Fingerprint{}}
	for _, it := range events {
		p.events[it.Identity] = it.Fingerprint
	}
	sub, err := nc.Subscribe(stream.Known, func(m *nats.Msg) {
		q, err := stream.ParseKnownQuestion(m.Data)
		if err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notBefore = append(p.notBefore, q.NotBefore)
		var a stream.KnownAnswer
		for i, it := range q.Items {
			if int(it.Slot)%p.of != p.number {
				continue
			}
			a.Slots.Add(it.Slot)
			if f, ok := p.events[it.Identity]; ok {
				a.Found = append(a.Found, stream.Found{Item: uint16(i), Conflict: f.Conflicts(it.Fingerprint), Seq: 77})
			}
		}
		_ = m.Respond(a.AppendBinary(nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKnownToProjectors: what projectors know is not published, neither by one
// call nor by many, and what is another event's is refused.
func TestKnownToProjectors(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	nc := s.Connect()
	answering(t, nc, 0, 2, identify(2, 1), identify(1100, 1))
	second := answering(t, nc, 1, 2, identify(3, 2))
	p := publisher(t, s.Connect(), Config{})
	outcomes, err := p.PublishRaw(t.Context(), messages(0, 1200))
	if accepted, duplicate, _ := count(outcomes); accepted != 1197 || duplicate != 2 ||
		outcomes[2].Status != Duplicate || outcomes[1100].Status != Duplicate {
		t.Errorf("%d accepted, %d duplicates", accepted, duplicate)
	}
	if !errors.Is(err, ErrConflict) || !errors.Is(err, ErrRefused) || !errors.Is(outcomes[3].Err, ErrConflict) {
		t.Errorf("a conflict is %v, %v", outcomes[3], err)
	}
	b := NewBatcher(p, 5*time.Second)
	for i, want := range map[int]Status{2: Duplicate, 3: Failed, 4: Duplicate, 5000: Accepted} {
		if o := b.Publish(t.Context(), messages(i, i+1)[0]); o.Status != want {
			t.Errorf("event %d alone is %v: %v", i, o.Status, o.Err)
		}
	}
	eachOnce(t, s, 1198)
	second.mu.Lock()
	defer second.mu.Unlock()
	for _, seq := range second.notBefore {
		if seq != 0 {
			t.Errorf("on an empty stream a question waits for %d", seq)
		}
	}
}

// TestFirstQuestion: the first questions wait for what the stream had before the
// publisher began, and later ones do not.
func TestFirstQuestion(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	nc := s.Connect()
	publish(t, publisher(t, nc, Config{}), messages(0, 10), 10, 0)
	there := answering(t, nc, 0, 1)
	p := publisher(t, nc, Config{})
	publish(t, p, messages(300, 301), 1, 0)
	p.asker.begunAt = p.asker.begunAt.Add(-foldWait)
	publish(t, p, messages(301, 302), 1, 0)
	there.mu.Lock()
	defer there.mu.Unlock()
	if got := fmt.Sprint(there.notBefore); got != "[10 0]" {
		t.Errorf("questions wait for %s", got)
	}
}

// TestSilentProjector: a projector that does not answer for a slot delays calls
// now and then, and little.
func TestSilentProjector(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	nc := s.Connect()
	answering(t, nc, 0, 2)
	p := publisher(t, nc, Config{})
	calls := 0
	for begin := time.Now(); time.Since(begin) < 3*time.Second; calls++ {
		publish(t, p, messages(calls*10, calls*10+10), 10, 0)
	}
	if calls < 5 {
		t.Errorf("%d calls in 3 s", calls)
	}
	p.asker.mu.Lock()
	defer p.asker.mu.Unlock()
	if p.asker.away.Len() == 0 || p.asker.away.Has(0) {
		t.Errorf("away are %v", p.asker.away)
	}
}

// TestConflictsOfOnePublisher: of events with one identity and several senders
// the first is stored, also where all come at once.
func TestConflictsOfOnePublisher(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{})
	b := NewBatcher(p, 5*time.Second)
	var three []Message
	for sender := range event.Fingerprint(3) {
		m := messages(7, 8)[0]
		m.Event.Fingerprint = sender + 1
		three = append(three, m, m)
	}
	outcomes, err := p.PublishRaw(t.Context(), three)
	if accepted, duplicate, failed := count(outcomes); accepted != 1 || duplicate != 1 || failed != 4 ||
		!errors.Is(err, ErrConflict) {
		t.Errorf("%v: %v", outcomes, err)
	}
	three = three[:0]
	for sender := range event.Fingerprint(3) {
		m := messages(8, 9)[0]
		m.Event.Fingerprint = sender + 1
		three = append(three, m)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[Status]int{}
	for i := range 60 {
		wg.Go(func() {
			o := b.Publish(t.Context(), three[i%3])
			if o.Status == Failed && !errors.Is(o.Err, ErrConflict) {
				t.Error(o.Err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[o.Status]++
		})
	}
	wg.Wait()
	if got[Accepted] != 1 || got[Duplicate] != 19 || got[Failed] != 40 {
		t.Errorf("got %v", got)
	}
	eachOnce(t, s, 2)
}

// TestFailedIsNotRemembered: what failed is published by the next call, and by one
// that waited for it.
func TestFailedIsNotRemembered(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{Attempt: 100 * time.Millisecond})
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	waited := make(chan []Outcome, 1)
	go func() {
		outcomes, _ := p.PublishRaw(t.Context(), messages(0, 30))
		waited <- outcomes
	}()
	outcomes, err := p.PublishRaw(ctx, append(messages(0, 30), messages(0, 30)...))
	if _, _, failed := count(outcomes); !errors.Is(err, ErrUnknown) || failed != 60 {
		t.Errorf("%d failed: %v", failed, err)
	}
	s.Start()
	if accepted, _, failed := count(<-waited); failed > 0 || accepted != 30 {
		t.Errorf("who waited: %d accepted, %d failed", accepted, failed)
	}
	publish(t, p, messages(0, 30), 0, 30)
}

// TestRecentIsBounded: the oldest are forgotten.
func TestRecentIsBounded(t *testing.T) {
	r := newRecent(false)
	for from := 0; from < maxRecent+1000; from += 1000 {
		msgs := messages(from, from+1000)
		places, outcomes := make([]int, len(msgs)), make([]Outcome, len(msgs))
		for i := range places {
			places[i] = i
		}
		c := r.claim(msgs, places, outcomes)
		for i := range outcomes {
			outcomes[i].Status = Accepted
		}
		r.release(msgs, c.mine, outcomes)
	}
	if len(r.events) != maxRecent || len(r.order) != maxRecent {
		t.Errorf("%d events, %d in order", len(r.events), len(r.order))
	}
}

// TestForget: what was acknowledged before is published again.
func TestForget(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{Forget: true})
	publish(t, p, append(messages(0, 30), messages(0, 5)...), 30, 5)
	publish(t, p, messages(0, 30), 30, 0)
}

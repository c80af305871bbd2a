package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestNoProjectorIsAtWork: a view that was not behind when it was last asked
// about, however long ago, is not taken for one that has stood still since.
func TestNoProjectorIsAtWork(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	var folded, durable uint64
	e := &streamEnd{
		nc: srv.Connect(), js: srv.JetStream(), folded: func() uint64 { return folded }, durable: func() uint64 { return durable },
	}
	publish := func() {
		if _, err := e.js.Publish(t.Context(), stream.EventSubject("crawled", [32]byte{}), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	pass := func() { e.movedAt = e.movedAt.Add(-2 * stuckAfter) } // time, since it was last asked
	for range 2 {
		if err := e.check(t.Context()); err != nil {
			t.Fatalf("nothing is left to fold: %v", err)
		}
		if !e.movedAt.IsZero() {
			pass()
		}
		publish()
		if err := e.check(t.Context()); err != nil {
			t.Fatalf("a message has just come: %v", err)
		}
		pass()
		if err := e.check(t.Context()); err == nil || !e.standsStill() {
			t.Fatalf("nothing has moved for a minute: %v, and it is stalled: %t", err, e.standsStill())
		} else if !strings.HasSuffix(err.Error(), ": no projector folds") {
			t.Error(err)
		}
		durable = folded + 1 // only this process does not have it
		if err := e.check(t.Context()); err == nil || !strings.HasSuffix(err.Error(), ": projectors have folded 1 of them, which this process cannot read") {
			t.Error(err)
		}
		publish()
		folded++
		if err := e.check(t.Context()); err != nil || e.standsStill() {
			t.Fatalf("the view catches up: %v, and it is stalled: %t", err, e.standsStill())
		}
		folded++
	}
}

// deafStream stands for a JetStream that does not answer, and counts questions.
type deafStream struct {
	jetstream.JetStream
	asked int
}

func (d *deafStream) Stream(context.Context, string) (jetstream.Stream, error) {
	d.asked++
	return nil, nats.ErrTimeout
}

// TestStreamDoesNotAnswer: not everyone who asks waits for it, and what is not
// known is not told.
func TestStreamDoesNotAnswer(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	deaf := &deafStream{}
	e := &streamEnd{nc: srv.Connect(), js: deaf, folded: func() uint64 { return 3 }}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	e.position(gone, 3, time.Hour) // says nothing of the stream
	for range 3 {
		if got := e.position(t.Context(), 3, time.Hour); got != (StreamPosition{LastSeq: 3, FoldedSeq: 3}) {
			t.Errorf("%+v", got)
		}
	}
	if deaf.asked != 2 {
		t.Errorf("asked %d times", deaf.asked)
	}
	if _, err := e.end(t.Context(), time.Hour); err == nil {
		t.Error("the end of the stream is known")
	}
	e.js = srv.JetStream()
	if err := e.check(t.Context()); err != nil {
		t.Errorf("when it answers again: %v", err)
	}
	if _, err := e.end(t.Context(), time.Hour); err != nil {
		t.Errorf("and after that: %v", err)
	}
}

// TestNumbersGetOld: numbers are stale since the first message that they lack, and
// not because one has just come; and since the stream last answered.
func TestNumbersGetOld(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	e := &streamEnd{nc: srv.Connect(), js: srv.JetStream()}
	publish := func() time.Time {
		t.Helper()
		ack, err := e.js.Publish(t.Context(), stream.EventSubject("crawled", [32]byte{}), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.js.Stream(t.Context(), stream.Events)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(t.Context(), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		return m.Time
	}
	current := func(folded uint64) {
		t.Helper()
		if p := e.position(t.Context(), folded, 0); p.StaleSince != nil {
			t.Fatalf("stale since %s with %d messages behind", p.StaleSince, p.Behind)
		}
	}
	current(0)
	e.next.asked = time.Time{}
	first := publish()
	current(0)
	if !e.next.since.Equal(first) {
		t.Fatalf("the first message came at %s, want %s", e.next.since, first)
	}
	e.next.since = first.Add(-2 * staleAfter) // time passes
	publish()
	p := e.position(t.Context(), 0, 0)
	if p.Behind != 2 || p.StaleSince == nil || !p.StaleSince.Equal(e.next.since) {
		t.Fatalf("%+v, want stale since %s", p, e.next.since)
	}
	current(2)

	e.js = &deafStream{}
	current(2)
	e.heard = e.heard.Add(-2 * staleAfter)
	if p := e.position(t.Context(), 2, 0); p.StaleSince == nil || !p.StaleSince.Equal(e.heard) {
		t.Fatalf("%+v, want stale since %s", p, e.heard)
	}
}

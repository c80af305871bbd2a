package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestTruth holds the promise that every stage's numbers equal a plain recount,
// whatever repeats there are.
func TestTruth(t *testing.T) {
	t.Parallel()
	s := up(t)
	c := recent(1, 1500)
	got := s.emit(c.lines())
	if want := (emitted{c.identities(), len(c.events) - c.identities(), 0}); got != want {
		t.Errorf("emit reports %+v, want %+v", got, want)
	}
	mustMatch(t, s, c)
}

// TestBackfill holds it for events of months ago, and for any part of their
// span.
func TestBackfill(t *testing.T) {
	t.Parallel()
	s := up(t)
	c := months(2, 1500)
	s.emit(c.lines())
	mustMatch(t, s, c)
	from := c.from.Add(c.span / 3)
	for _, span := range []time.Duration{time.Hour, 26 * time.Hour, 19 * 24 * time.Hour} {
		to := from.Add(span)
		mustCount(t, s, between(from, to), c.recount(func(e sent) bool { return !e.At.Before(from) && e.At.Before(to) }))
	}
	day := from.Truncate(24 * time.Hour)
	month := day.AddDate(0, 1, 0)
	mustEstimate(t, s, between(day, month), c.recount(func(e sent) bool { return !e.At.Before(day) && e.At.Before(month) }))
}

// TestSentAgain holds the promise that sending everything again changes
// nothing, beyond the time for which the broker remembers ids.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	// From the beginning: nats-server 2.15.2 may look for what it can forget
	// by the window that it has had, when it is given another one.
	s := up(t, "MILLRACE_DEDUP_WINDOW=1s")
	c := recent(3, 800)
	s.emit(c.lines())
	mustMatch(t, s, c)
	s.stop()
	s.restart()
	mustMatch(t, s, c)
	s.forgetsIDs(c.events[0])
	if again := s.emit(c.lines()); again.accepted < c.identities()/2 {
		t.Errorf("the broker took %d events again, want most of %d: this test wants it to have forgotten them", again.accepted, c.identities())
	}
	mustMatch(t, s, c)
}

// TestOtherPipeline holds the promise that another pipeline is another list of
// stages and no code.
func TestOtherPipeline(t *testing.T) {
	t.Parallel()
	s := up(t, "MILLRACE_STAGES=submitted,checked,approved,requested,paid")
	c := newCorpus(4, 300, []string{"submitted", "checked", "approved", "requested", "paid"}, time.Now().Add(-20*time.Hour), 19*time.Hour, false)
	s.emit(c.lines())
	mustMatch(t, s, c)
	status, _, body := s.post("/events", "application/json", valid(map[string]any{"stage": "crawled"}))
	mustRefuse(t, status, body, "stage", "stage_unknown")
}

// forgetsIDs waits until the broker takes a message id a second time. The event
// is one that has been counted, and so changes nothing.
func (s *server) forgetsIDs(e sent) {
	s.t.Helper()
	js, err := jetstream.New(s.nats())
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := json.Marshal(e)
	if err != nil {
		s.t.Fatal(err)
	}
	publish := func() *jetstream.PubAck {
		ack, err := js.Publish(s.t.Context(), subjectOf(e.article()), body, jetstream.WithMsgID("probe"))
		if err != nil {
			s.t.Fatal(err)
		}
		return ack
	}
	publish()
	poll(s.t, waitLimit, "the broker to forget an id", func() bool { return !publish().Duplicate })
}

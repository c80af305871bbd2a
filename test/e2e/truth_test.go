package e2e

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
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
		mustCount(t, s, between(from, to), c.recount(func(e sent) bool {
			return !e.At.Before(from) && e.At.Before(to)
		}))
	}
	day := from.Truncate(24 * time.Hour)
	month := day.AddDate(0, 1, 0)
	mustEstimate(t, s, between(day, month), c.recount(func(e sent) bool {
		return !e.At.Before(day) && e.At.Before(month)
	}))
}

// TestSentAgain holds the promise that sending everything again changes nothing,
// and that who sends it is told so.
func TestSentAgain(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	c := recent(3, 800)
	s.emit(c.lines())
	again := func() {
		t.Helper()
		if again := s.emit(c.lines()); again.accepted > 0 {
			t.Errorf("of what was sent before %d events are accepted", again.accepted)
		}
		mustMatch(t, s, c)
	}
	again() // at once
	s.stop()
	s.restart()
	s.caughtUp()
	again()
}

// TestOtherPipeline holds the promise that another pipeline is another list of
// stages and no code.
func TestOtherPipeline(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t, "MILLRACE_STAGES=submitted,checked,approved,requested,paid")
	c := newCorpus(4, 300, []string{"submitted", "checked", "approved", "requested", "paid"},
		time.Now().Add(-20*time.Hour), 19*time.Hour, false)
	s.emit(c.lines())
	mustMatch(t, s, c)
	status, _, body := s.post("/events", "application/json", valid(map[string]any{"stage": "crawled"}))
	mustRefuse(t, status, body, "stage", "stage_unknown")
}

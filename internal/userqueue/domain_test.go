package userqueue_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestDomainPacing: errors of a domain keep its items apart by the delay that an operator has set, which doubles up to
// the longest one, and begins anew after the quiet time.
func TestDomainPacing(t *testing.T) {
	plain, q := open(t, func(*queue.Settings) {})
	s, err := userqueue.NewPaced(plain.Queues(), item.Pacing{Delay: time.Minute, MostDelay: 4 * time.Minute, Quiet: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	// back has all that is known of domains lie further back.
	back := func(by time.Duration) {
		t.Helper()
		if _, err := s.Queues().Pool().Exec(t.Context(), `UPDATE millrace.error_domain SET
			changed_at = changed_at - $1 * interval '1 second', next_at = next_at - $1 * interval '1 second'`, by.Seconds()); err != nil {
			t.Fatal(err)
		}
	}
	fails := func() time.Duration {
		t.Helper()
		wait, err := userqueue.DomainWait(s, t.Context(), q, stream.Report{Class: "429", Domain: "shop.example"})
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	for i, step := range []struct {
		later   time.Duration // than the error before
		atLeast time.Duration
	}{
		{0, 0},
		{0, 59 * time.Second},               // the delay has not doubled: the first error is not a delay ago
		{2 * time.Minute, 0},                // the items that wait are through, and it doubles
		{3 * time.Minute, 0},                // once more
		{30 * time.Minute, 0},               // it may not any more
		{0, 3*time.Minute + 59*time.Second}, // so items are four minutes apart
		{2 * time.Hour, 0},                  // quiet
		{0, 59 * time.Second},               // anew
	} {
		back(step.later)
		got := fails()
		if got < step.atLeast || got > step.atLeast+5*time.Second {
			t.Errorf("error %d: a wait of %s, want %s", i, got, step.atLeast)
		}
	}
	if _, err := userqueue.NewPaced(plain.Queues(), item.Pacing{Delay: time.Hour, MostDelay: time.Minute}); err == nil {
		t.Error("a longest delay below the first is taken")
	}
}

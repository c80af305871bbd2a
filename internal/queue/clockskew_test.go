package queue

import (
	"testing"
	"time"
)

// TestSetBack: a clock that runs on, answers late or jumps ahead does not count as
// one that was set back.
func TestSetBack(t *testing.T) {
	var c ServerClock
	at := time.Unix(1e9, 0)
	for _, step := range []struct {
		by   time.Duration
		want bool
	}{
		{0, false},
		{0, false},
		{time.Second, false},
		{-20 * time.Second, false},
		{48 * time.Hour, false},
		{-time.Hour, true},
		{0, false},
		{-5 * time.Minute, true},
	} {
		at = at.Add(step.by)
		if got := c.SetBack(at, 2*time.Minute); got != step.want {
			t.Errorf("after a step by %s: %t", step.by, got)
		}
	}
}

package work

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
)

// TestDoubtful: NATS waits anew, once, for each message that it may have handed out by
// a clock that was ahead, whenever the message is found with a daemon.
func TestDoubtful(t *testing.T) {
	var c brokerClock
	at := time.Unix(1e9, 0)
	for _, step := range []struct {
		by   time.Duration
		last uint64
		held []uint64
		want []uint64
		back bool
	}{
		{0, 10, []uint64{3}, []uint64{3}, false},                          // of the time before the leader
		{time.Second, 12, []uint64{3, 4, 10, 11}, []uint64{4, 10}, false}, // found late
		{time.Hour, 20, []uint64{9, 15}, []uint64{9}, false},
		{-time.Hour, 30, []uint64{9, 15, 30}, []uint64{9, 15, 30}, true},
		{time.Second, 40, []uint64{9, 28, 35}, []uint64{28}, false},
	} {
		at = at.Add(step.by)
		d := differences{at: at, last: step.last, held: map[uint64]queue.ID{}}
		for _, seq := range step.held {
			d.held[seq] = 2
		}
		anew, back := c.look(d, time.Minute)
		slices.Sort(anew)
		if !slices.Equal(anew, step.want) || back != step.back {
			t.Errorf("with %v of %d: %v, %t; want %v, %t", step.held, step.last, anew, back, step.want, step.back)
		}
	}
}

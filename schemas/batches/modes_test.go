package batches

import (
	"fmt"
	"math"
	"testing"
)

func TestModes(t *testing.T) {
	for m, want := range map[Modes][3]bool{ // of an event, a legacy message, and inline items
		{}:                                     {false, false, true},
		{New: true, NewShare: 1}:               {true, false, true},
		{New: true}:                            {false, false, true},
		{Legacy: true, NewShare: 1}:            {false, true, true},
		{New: true, Legacy: true, NewShare: 1}: {true, true, true},
	} {
		for format, want := range want {
			a := Announcement{Format: Format(format), Batch: ID{"p-brand-0", 1}}
			if got := m.Take(a); got != want {
				t.Errorf("%+v takes format %d: %v", m, format, got)
			}
		}
	}
}

// TestShare: about as many jobs as it says are in a share, none leaves when it grows, and all
// batches of a job go one way.
func TestShare(t *testing.T) {
	const jobs = 20_000
	in := map[float64]int{}
	for i := range jobs {
		job, before := fmt.Sprintf("proj_%d-brand-%d", i, i%7), false
		for _, share := range []float64{0, 0.1, 0.5, 0.9, 1} {
			m := Modes{New: true, NewShare: share}
			taken := m.Take(Announcement{Batch: ID{job, 1}})
			if before && !taken {
				t.Fatalf("%s leaves at %v", job, share)
			}
			if taken != m.Take(Announcement{Batch: ID{job, 2}, Platform: "tiktok"}) {
				t.Fatalf("%s is in %v in part", job, share)
			}
			if before = taken; taken {
				in[share]++
			}
		}
	}
	for share, n := range in {
		if math.Abs(float64(n)/jobs-share) > 0.015 { // four standard deviations
			t.Errorf("%d of %d jobs are in %v", n, jobs, share)
		}
	}
	if in[0] != 0 || in[1] != jobs {
		t.Errorf("%d are in a share of 0, %d in all", in[0], in[1])
	}
}

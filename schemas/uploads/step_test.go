package uploads

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// busy is an item that a worker has.
type busy struct{ end, takes time.Duration }

// works is a job whose slices workers work, on a clock of its own.
type works struct {
	pace    Pace
	r       *rand.Rand
	latency time.Duration // of an item: half as long to half as long again
	workers int
	told    func(items int, took time.Duration) // of a slice that is over

	now, begun time.Duration
	slice      Slice
	queued     int // items that no worker has
	busy       []busy
}

// feed does what the feeder does: it goes on with the slice, or begins another one. What is in the queue stays there.
func (w *works) feed() {
	w.slice.Age, w.slice.Workers = w.now-w.begun, w.workers
	items, fresh := w.pace.Next(w.slice)
	if fresh {
		if w.slice.Items > 0 {
			w.told(w.slice.Items, w.slice.Age)
		}
		w.slice.Items, w.slice.Ended, w.begun = items, 0, w.now
	}
	w.queued = max(w.queued, items-len(w.busy))
	for w.queued > 0 && len(w.busy) < w.workers {
		w.queued--
		takes := time.Duration(float64(w.latency) * (0.5 + w.r.Float64()))
		w.busy = append(w.busy, busy{w.now + takes, takes})
	}
}

// work has the next item end. The mean of what items take moves as it does in the database.
func (w *works) work() {
	w.feed()
	next := slices.MinFunc(w.busy, func(a, b busy) int { return cmp.Compare(a.end, b.end) })
	w.busy = slices.DeleteFunc(w.busy, func(b busy) bool { return b == next })
	w.now = next.end
	w.slice.Ended++
	if mean := w.slice.Service; mean == 0 || next.takes > 5*mean {
		w.slice.Service = next.takes
	} else {
		w.slice.Service += (next.takes - mean) / 5
	}
}

// TestPaceThroughSteps: through steps in latency, tenfold up and down, 95 of 100 slices of those that have anything to do with
// a step take no longer than 1.25 times their target, and from the third slice behind a step on all of them do, and so many
// items as they have would. The clock is the test's own.
func TestPaceThroughSteps(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	p, err := Pace{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	const steps, window = 100, 20 // slices behind each step
	for _, workers := range []int{1, 3, 20} {
		var ratios []float64
		var worstLate, worstItems float64
		since := 0
		w := &works{pace: p, r: r, latency: 20 * time.Millisecond, workers: workers}
		w.told = func(items int, took time.Duration) {
			ratio := took.Seconds() / p.Target.Seconds()
			ratios = append(ratios, ratio)
			if since++; since > 3 {
				worstLate = max(worstLate, ratio)
				planned := float64(items) * w.latency.Seconds() / float64(workers) / p.Target.Seconds()
				worstItems = max(worstItems, planned)
			}
		}
		for range steps {
			for until := w.now + time.Duration(r.Int64N(int64(p.Target))); w.now < until; {
				w.work()
			}
			w.latency = 220*time.Millisecond - w.latency // 20 to 200 and back
			for since = 0; since < window; {
				w.work()
			}
		}
		slices.Sort(ratios)
		p95 := ratios[len(ratios)*95/100]
		t.Logf("%d workers: %d slices; p95 %.2f, longest %.2f of the target; from the third slice on %.2f, and %.2f by their items",
			workers, len(ratios), p95, ratios[len(ratios)-1], worstLate, worstItems)
		if p95 > 1.25 || worstLate > 1.25 || worstItems > 1.25 {
			t.Errorf("seed %d", seed)
		}
	}
}

package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func collectorPercent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

// TestCollector: the heap grows further in a backlog than at rest, unless the user
// has set how far.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(collectorPercent())
	live := make([]byte, 2*leastGrowth*100/growthAtRest)
	runtime.GC()
	c := new(collector)
	for _, tt := range []struct {
		begins bool
		want   int
	}{{true, growthInBacklog}, {false, growthAtRest}, {true, growthInBacklog}} {
		if c.backlog(tt.begins); collectorPercent() != tt.want {
			t.Errorf("a backlog begins: %t: the heap grows by %d %%, want %d", tt.begins, collectorPercent(), tt.want)
		}
	}
	runtime.KeepAlive(live)
	const own = 33
	debug.SetGCPercent(own)
	c = &collector{set: true}
	c.backlog(true)
	c.backlog(false)
	if collectorPercent() != own {
		t.Errorf("the user has set %d %%, and the heap grows by %d %%", own, collectorPercent())
	}
}

// TestCollectorSmall: a small heap grows by leastGrowth, and a cycle that finds more in
// use has it grow by fewer hundredths.
func TestCollectorSmall(t *testing.T) {
	for live, want := range map[uint64]int{
		0: mostGrowth, 1 << 20: mostGrowth, 32 << 20: 200, 128 << 20: 50, 256 << 20: 25, 1 << 30: 25,
	} {
		if got := growthFor(growthAtRest, live); got != want {
			t.Errorf("a heap with %d bytes in use grows by %d %%, want %d", live, got, want)
		}
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	defer debug.SetGCPercent(collectorPercent())
	c := newCollector()
	live := make([]byte, 2*leastGrowth*100/growthAtRest)
	for deadline := time.Now().Add(time.Minute); collectorPercent() != growthAtRest; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("with %d bytes in use the heap grows by %d %%, want %d", len(live), collectorPercent(), growthAtRest)
		}
	}
	runtime.KeepAlive(live)
	live = nil
	for deadline := time.Now().Add(time.Minute); collectorPercent() < 2*growthAtRest; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("when little is in use again the heap grows by %d %%", collectorPercent())
		}
	}
	c.mu.Lock()
	c.set = true // for the tests that follow
	c.mu.Unlock()
}

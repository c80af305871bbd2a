package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// By how many hundredths of what is in use the heap grows before it is collected.
// Most of what is in use stays: the funnel, key stores, WebSockets. In a backlog the
// collector's time is the fold's, and the heap may grow up to its limit.
const (
	growthAtRest    = 25
	growthInBacklog = 100
)

// leastGrowth is how many bytes the heap grows at least before it is collected: a
// small heap would be collected all the time otherwise. It may grow more than
// mostGrowth hundredths for that, no further.
const (
	leastGrowth = 64 << 20
	mostGrowth  = 400
)

// longBacklog is how long a backlog has to be folded for memory to be given back
// to the system after it.
const longBacklog = 5 * time.Second

// collector is Go's, of this process.
type collector struct {
	set bool // by the user

	mu      sync.Mutex
	since   time.Time // of the present backlog
	growth  int       // growthAtRest or growthInBacklog
	percent int       // what Go was told last
}

// newCollector has the collector work harder before the heap passes a size, and
// as fits a process at rest, unless the user has set these.
func newCollector() *collector {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(608 << 20)
	}
	c := &collector{set: os.Getenv("GOGC") != "", growth: growthAtRest}
	c.adjust()
	if !c.set {
		runtime.SetFinalizer(&cycle{c}, (*cycle).ended)
	}
	return c
}

// cycle is an object that nothing refers to, so that each cycle of the collector finds it
// and calls ended.
type cycle struct{ c *collector }

// ended fits the growth to what the cycle has found in use, and has the next cycle call it
// again.
func (y *cycle) ended() {
	y.c.mu.Lock()
	defer y.c.mu.Unlock()
	y.c.adjust()
	runtime.SetFinalizer(y, (*cycle).ended)
}

// adjust tells Go how far the heap may grow, for as much as is in use.
func (c *collector) adjust() {
	if c.set {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := growthFor(c.growth, live[0].Value.Uint64())
	// Telling Go stops the process for a moment, so a small difference changes nothing.
	if d := percent - c.percent; d > c.percent/8 || -d > c.percent/8 || percent == c.growth && d != 0 {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
}

// growthFor is by how many hundredths a heap with so many bytes in use grows.
func growthFor(growth int, live uint64) int {
	return max(growth, int(min(leastGrowth*100/max(live, 1), mostGrowth)))
}

// backlog takes note of the begin and the end of a backlog.
func (c *collector) backlog(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if begins {
		c.since, c.growth = time.Now(), growthInBacklog
		c.adjust()
		return
	}
	c.growth = growthAtRest
	c.adjust()
	if time.Since(c.since) > longBacklog {
		go debug.FreeOSMemory() // which takes a while, and the fold goes on
	}
}

package main

import (
	"os"
	"runtime/debug"
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

// longBacklog is how long a backlog has to be folded for memory to be given back
// to the system after it.
const longBacklog = 5 * time.Second

// collector is Go's, of this process.
type collector struct {
	set bool // by the user

	mu    sync.Mutex
	since time.Time // of the present backlog
}

// newCollector has the collector work harder before the heap passes a size, and
// as fits a process at rest, unless the user has set these.
func newCollector() *collector {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(640 << 20)
	}
	c := &collector{set: os.Getenv("GOGC") != ""}
	c.grow(growthAtRest)
	return c
}

func (c *collector) grow(percent int) {
	if !c.set {
		debug.SetGCPercent(percent)
	}
}

// backlog takes note of the begin and the end of a backlog.
func (c *collector) backlog(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if begins {
		c.since = time.Now()
		c.grow(growthInBacklog)
		return
	}
	c.grow(growthAtRest)
	if time.Since(c.since) > longBacklog {
		go debug.FreeOSMemory() // which takes a while, and the fold goes on
	}
}

package main

import (
	"runtime/debug"
	"testing"
)

// TestCollector: the heap grows further in a backlog than at rest, unless the user
// has set how far.
func TestCollector(t *testing.T) {
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	defer debug.SetGCPercent(percent())
	c := new(collector)
	for _, tt := range []struct {
		begins bool
		want   int
	}{{true, growthInBacklog}, {false, growthAtRest}, {true, growthInBacklog}} {
		if c.backlog(tt.begins); percent() != tt.want {
			t.Errorf("a backlog begins: %t: the heap grows by %d %%, want %d", tt.begins, percent(), tt.want)
		}
	}
	const own = 33
	debug.SetGCPercent(own)
	c = &collector{set: true}
	c.backlog(true)
	c.backlog(false)
	if percent() != own {
		t.Errorf("the user has set %d %%, and the heap grows by %d %%", own, percent())
	}
}

package main

import (
	"log/slog"
	"sync"

	"github.com/millrace-io/millrace/internal/embedded/confine"
)

// confinedEngine is a child that knows what confines it, nil until it serves.
type confinedEngine interface{ Confinement() *confine.Report }

// confinements knows the present child of each embedded engine.
type confinements struct {
	mu      sync.Mutex
	engines map[string]confinedEngine
}

// set notes the child that an engine now runs in.
func (c *confinements) set(name string, e confinedEngine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engines == nil {
		c.engines = map[string]confinedEngine{}
	}
	c.engines[name] = e
}

// reports says for each engine what confines it.
func (c *confinements) reports() map[string]confine.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]confine.Report{}
	for name, e := range c.engines {
		if r := e.Confinement(); r != nil {
			all[name] = *r
		} else {
			all[name] = confine.Report{Missing: []string{"it is not running"}}
		}
	}
	return all
}

// texts are the reports for /health.
func (c *confinements) texts() map[string]string {
	texts := map[string]string{}
	for name, r := range c.reports() {
		texts[name] = r.String()
	}
	return texts
}

// warn logs which engines are confined less than they could be.
func (c *confinements) warn(log *slog.Logger) {
	for name, r := range c.reports() {
		if !r.Whole() {
			log.Warn("this system cannot confine an embedded engine wholly: what reaches it reaches more", "engine",
				name, "confinement", r.String())
		}
	}
}

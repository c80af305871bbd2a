package projector

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// asides is how many damaged key stores of a group there may be while
	// none has been filled again. The one that came last is kept for whoever
	// wants to know what has happened to it.
	asides = 3
	// asideFor is how long that one is kept.
	asideFor = 7 * 24 * time.Hour
	// sweepEvery is the time between two looks at what the group stores.
	sweepEvery = 15 * time.Second
)

// putAside makes place for a new key store, which is filled from the events
// table.
func (g *group) putAside(damage error) error {
	if err := g.removeAsides(asides-1, 0); err != nil {
		g.log.Warn("damaged key stores stay", "group", g.ID, "error", err)
	}
	aside := g.asidePrefix() + strconv.FormatInt(time.Now().UnixNano(), 10)
	g.log.Error("the key store is damaged, filling a new one from the events table", "group", g.ID, "error", damage, "aside", aside)
	if err := os.Rename(g.keysDir(), aside); err != nil {
		return fmt.Errorf("put damaged key store aside: %w", err)
	}
	return nil
}

// asidePrefix is what the names of the group's damaged key stores begin with;
// the time follows, in Unix nanoseconds.
func (g *group) asidePrefix() string { return g.keysDir() + ".damaged-" }

// removeAsides removes damaged key stores of the group: all but so many of the
// newest ones, and those that were put aside before a time, in Unix
// nanoseconds.
func (g *group) removeAsides(keep int, before int64) error {
	prefix := g.asidePrefix()
	found, err := filepath.Glob(prefix + "*")
	if err != nil {
		return fmt.Errorf("look for damaged key stores: %w", err)
	}
	var times []int64 // of those that were named here
	for _, dir := range found {
		if at, err := strconv.ParseInt(strings.TrimPrefix(dir, prefix), 10, 64); err == nil {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, func(a, b int64) int { return cmp.Compare(b, a) })
	for i, at := range times {
		if i < keep && at >= before {
			continue
		}
		dir := prefix + strconv.FormatInt(at, 10)
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove damaged key store: %w", err)
		}
		g.log.Info("a damaged key store that was put aside is removed", "group", g.ID, "folder", dir)
	}
	return nil
}

// sweep removes damaged key stores and tells the size of the one in use, until
// ctx ends. That one has been filled, so that nothing depends on the others.
func (t *term) sweep(ctx context.Context) {
	every := time.NewTicker(sweepEvery)
	defer every.Stop()
	for {
		if err := t.removeAsides(1, time.Now().Add(-asideFor).UnixNano()); err != nil {
			t.log.Warn("damaged key stores stay", "error", err)
		}
		if size, err := t.keys.Bytes(); err == nil { // else it has been given up
			t.metrics.stored(t.Group, size)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

package projector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/layout"
	"github.com/millrace-io/millrace/schemas/slots"
)

// regroup is what a crew knows of the layout, and of a change that is under
// way (package slots).
type regroup struct {
	open  []slots.Group // those that may be folded at present
	after int           // epochs that are known to have ended
	asked time.Time     // since when a change is known to have been asked for
}

// errOutdated is the error of a layout older than one that has been read. In a
// cluster any server with a copy of the bucket answers, and its copy may lag
// behind the one that was written.
var errOutdated = errors.New("a NATS server answers with a layout of slot groups that has been overtaken")

// look reads the layout, finds the groups that may be folded at present, and
// takes part in a change.
func (c *crew) look(ctx context.Context) error {
	l, err := layout.Read(ctx, c.kv)
	if err != nil {
		return err
	}
	if len(l.Epochs) <= c.after { // also none at all, though one was agreed on
		return errOutdated
	}
	if l.Next > 0 {
		return c.cut(ctx, l)
	}
	c.asked = time.Time{}
	before := len(l.Epochs) - 1
	if c.open != nil && c.after == before {
		return nil
	}
	if c.open, err = layout.Left(ctx, c.kv, l); err != nil {
		return err
	}
	c.drop()
	current := l.Current()
	if len(c.open) > 0 || !c.sweep(current[0].ID) {
		return nil
	}
	c.after, c.open = before, current
	if before > 0 {
		c.log.Info("the slot groups begin", "slot_groups", len(current), "after", current[0].After)
	}
	return nil
}

// cut closes the groups that are to end, and adds those that have been asked
// for behind them (invariants 2 and 5 of package slots).
func (c *crew) cut(ctx context.Context, l slots.Layout) error {
	if c.asked.IsZero() {
		c.asked = time.Now()
		c.log.Info("another number of slot groups has been asked for", "slot_groups", l.Next)
	}
	c.open = nil
	if c.drop(); len(c.workers) > 0 {
		return nil
	}
	_, err := layout.Cut(ctx, c.kv, c.mayClose)
	return err
}

// mayClose leaves it to another owner to complete what it has begun, but not
// for long: it may not know of changes.
func (c *crew) mayClose(g slots.Group, log *checkpoint.Log) bool {
	return !c.held(g, log) || time.Since(c.asked) > c.cfg.Lease/2
}

// drop lets workers complete what they have begun, and end, whose groups are
// not to be folded any more, or no longer without end.
func (c *crew) drop() {
	for _, w := range c.workers {
		if !slices.Contains(c.open, w.Group) {
			w.dropped = true
			w.cancel()
		}
	}
}

// sweep removes the key stores of groups that have ended, those with a smaller
// id, and what was put aside of them. It returns false while one is in use.
func (c *crew) sweep(first uint32) bool {
	for id := range c.workers {
		if id < first {
			return false
		}
	}
	dirs, err := filepath.Glob(filepath.Join(c.cfg.Dir, "keys*"))
	if err != nil {
		return true // a folder with such a name keeps its key stores
	}
	for _, dir := range dirs {
		name, _, _ := strings.Cut(filepath.Base(dir), ".") // .damaged-…
		id, ok := keysOf(name)
		if !ok || id >= first {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			c.log.Warn("the key store of a slot group that has ended is not removed", "group", id, "error", err)
		}
	}
	return true
}

// keysName is the name of a group's key store.
func keysName(g slots.Group) string {
	if g.ID == 0 && g.Of == 1 {
		return "keys"
	}
	return fmt.Sprintf("keys-%d", g.ID)
}

// keysOf returns the group that a key store of this name is of.
func keysOf(name string) (id uint32, ok bool) {
	if name == "keys" {
		return 0, true
	}
	_, err := fmt.Sscanf(name, "keys-%d", &id)
	return id, err == nil && name == fmt.Sprintf("keys-%d", id)
}

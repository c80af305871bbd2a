package assignment

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/millrace-io/millrace/schemas/slots"
)

// damages are the slot groups whose position in the bucket cannot be read. It is
// safe for concurrent use.
type damages struct {
	mu     sync.Mutex
	groups map[uint32]error
}

// note takes note of what stands in the place of a group's position, nil for a
// position, and logs what is new.
func (d *damages) note(log *slog.Logger, g slots.Group, damage error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.groups[g.ID]
	switch {
	case damage == nil && before != nil:
		log.Info("the position of a slot group is there again", "group", g.ID)
		delete(d.groups, g.ID)
	case damage != nil && (before == nil || before.Error() != damage.Error()):
		log.Error("the position of a slot group was overwritten", "group", g.ID, "key", g.Key(), "error", damage)
		if d.groups == nil {
			d.groups = map[uint32]error{}
		}
		d.groups[g.ID] = damage
	}
}

// all returns what is noted, as one error.
func (d *damages) all() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for id, err := range d.groups {
		errs = append(errs, fmt.Errorf("position of slot group %d: %w", id, err))
	}
	return errors.Join(errs...)
}

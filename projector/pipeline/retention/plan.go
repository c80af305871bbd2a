package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/pipeline/assignment"
)

// plan is the newest retirement of a month.
type plan struct {
	After uint64 `json:"after"`
	Upto  uint64 `json:"upto"`
	// Done says that it has been committed. A plan that is not is carried out
	// before there can be another.
	Done bool `json:"done"`

	revision uint64 // 0: there is none yet
}

// errOvertaken is the error of a plan that another process has changed.
var errOvertaken = errors.New("another process is at work on the month")

func planKey(m month) string { return fmt.Sprintf("retention.%d", m) }

// readPlan returns the month's plan, and a done one when it has none.
func (k *Keeper) readPlan(ctx context.Context, m month) (plan, error) {
	entry, err := k.kv.Get(ctx, planKey(m))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return plan{Done: true}, nil
	}
	if err != nil {
		return plan{}, fmt.Errorf("read plan of %d: %w", m, err)
	}
	var p plan
	if err := json.Unmarshal(entry.Value(), &p); err != nil {
		return plan{}, fmt.Errorf("read plan of %d: %q is none: %w", m, entry.Value(), err)
	}
	p.revision = entry.Revision()
	return p, nil
}

// writePlan replaces the plan that has the revision.
func (k *Keeper) writePlan(ctx context.Context, m month, p plan) (plan, error) {
	value, err := json.Marshal(p)
	if err != nil {
		return p, fmt.Errorf("write plan of %d: %w", m, err)
	}
	revision, err := k.kv.Update(ctx, planKey(m), value, p.revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return p, fmt.Errorf("write plan of %d: %w", m, errOvertaken)
	}
	if err != nil {
		return p, fmt.Errorf("write plan of %d: %w", m, err)
	}
	p.revision = revision
	return p, nil
}

// durable returns the sequence up to which every effect of every slot group is
// durable (invariant 1).
func (k *Keeper) durable(ctx context.Context) (uint64, error) {
	return assignment.Folded(ctx, k.kv, assignment.Durable)
}

package lag

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/slots"
)

// Reason says why a slot group is not folded, as a label.
type Reason string

// Reasons that the checkpoints tell. A projector knows of more.
const (
	Unassigned      Reason = "unassigned"       // no projector holds it
	Silent          Reason = "silent"           // its projector has not renewed the lease
	PositionDamaged Reason = "position_damaged" // its checkpoint is not one
)

// Config of a source of the projectors' lag.
type Config struct {
	// Lease is how long a silent owner keeps its slot group.
	Lease time.Duration
	// Unfolded returns the groups of this process's projector that it does not fold, and
	// why; nil where there is no projector.
	Unfolded func() map[uint32]Reason
}

// leases is for how many leases a checkpoint may stay unwritten before its owner counts as
// silent. An owner at work writes several times in a lease.
const leases = 3

// roundTimeout bounds the questions about all groups.
const roundTimeout = 8 * time.Second

// Source returns the gauges of how far the durable position of each slot group is behind
// the end of the stream, and of which groups nobody folds.
func Source(cfg Config, js jetstream.JetStream) sampler.Source {
	events := sampler.NewGauge("millrace_projector_behind",
		"Messages of a slot group that are in the stream and not in its last durable batch.", "group")
	seconds := sampler.NewGauge("millrace_projector_behind_seconds",
		"How long the oldest message that a slot group has not made durable has been in the stream.", "group")
	unfolded := sampler.NewGauge("millrace_slot_group_unfolded",
		"1 for a slot group that is not folded, by reason; absent while it is folded.", "group", "reason")
	groups := sampler.NewGauge("millrace_slot_groups", "Slot groups that events belong to.")
	return sampler.Source{
		Name: "lag", Gauges: []*sampler.Gauge{events, seconds, unfolded, groups}, Timeout: roundTimeout,
		Read: func(ctx context.Context, set sampler.Set) error {
			d, err := readDurable(ctx, js)
			if err != nil {
				return err
			}
			open := d.open()
			info, all, err := Measure(ctx, js, d.positions(open))
			if err != nil {
				return err
			}
			set(groups, float64(len(open)))
			export(set, events, seconds, all)
			for id, reason := range cfg.reasons(d, open, info.TimeStamp) {
				set(unfolded, 1, label(id), string(reason))
			}
			return nil
		},
	}
}

// reasons returns the groups that are not folded. What this process knows of its own
// groups is newer than what the checkpoints say.
func (c Config) reasons(d durable, open []slots.Group, now time.Time) map[uint32]Reason {
	reasons := map[uint32]Reason{}
	for _, g := range open {
		switch r, known := d.records[g.ID]; {
		case r.damage != nil:
			reasons[g.ID] = PositionDamaged
		case !known || r.Owner == "":
			reasons[g.ID] = Unassigned
		case now.Sub(r.written) > leases*c.Lease:
			reasons[g.ID] = Silent
		}
	}
	if c.Unfolded != nil {
		maps.Copy(reasons, c.Unfolded())
	}
	return reasons
}

// MirrorSource returns the gauges of how far a query service's own state is behind the
// stream. While positions returns none, the state is not loaded, and the gauges are absent.
func MirrorSource(positions func() []Position, js jetstream.JetStream) sampler.Source {
	events := sampler.NewGauge("millrace_mirror_behind",
		"Messages of a slot group that are in the stream and not in the views that this process answers from.", "group")
	seconds := sampler.NewGauge("millrace_mirror_behind_seconds",
		"How long the oldest message that these views do not have has been in the stream.", "group")
	return sampler.Source{
		Name: "mirror", Gauges: []*sampler.Gauge{events, seconds}, Timeout: roundTimeout,
		Read: func(ctx context.Context, set sampler.Set) error {
			at := positions()
			if len(at) == 0 {
				return errors.New("the views are not loaded")
			}
			_, all, err := Measure(ctx, js, at)
			if err != nil {
				return err
			}
			export(set, events, seconds, all)
			return nil
		},
	}
}

func export(set sampler.Set, events, seconds *sampler.Gauge, all []Behind) {
	for _, b := range all {
		set(events, float64(b.Events), label(b.ID))
		set(seconds, b.Age.Seconds(), label(b.ID))
	}
}

func label(group uint32) string { return strconv.FormatUint(uint64(group), 10) }

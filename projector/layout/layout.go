// Package layout divides the slots of the event stream among slot groups. How
// many groups there are is decided once for an installation: state, tokens and
// positions are a group's own.
package layout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// ErrOther is the error of a projector that asks for another number of slot
// groups than the installation has.
var ErrOther = errors.New("the installation has another number of slot groups")

// key holds the number of groups in the bucket of checkpoints.
const key = "layout"

type record struct {
	SlotGroups uint32 `json:"slot_groups"`
}

// Agree returns the installation's number of slot groups. The first caller
// decides it: want, or 1 where want is 0. Later ones get ErrOther when they
// want another.
func Agree(ctx context.Context, kv jetstream.KeyValue, want uint32) (uint32, error) {
	for {
		entry, err := kv.Get(ctx, key)
		switch {
		case err == nil:
			return agreed(entry.Value(), want)
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return 0, fmt.Errorf("read layout: %w", err)
		}
		groups, err := first(ctx, kv, want)
		if err != nil {
			return 0, err
		}
		value, err := json.Marshal(record{groups})
		if err != nil {
			return 0, fmt.Errorf("write layout: %w", err)
		}
		_, err = kv.Create(ctx, key, value)
		if err == nil {
			return agreed(value, want)
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return 0, fmt.Errorf("write layout: %w", err)
		}
	}
}

// Groups returns the slot groups of an installation, none when that has not
// been decided yet.
func Groups(ctx context.Context, kv jetstream.KeyValue) ([]Group, error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	of, err := agreed(entry.Value(), 0)
	if err != nil {
		return nil, err
	}
	groups := make([]Group, of)
	for i := range groups {
		groups[i] = Group{Number: uint32(i), Of: of}
	}
	return groups, nil
}

func agreed(value []byte, want uint32) (uint32, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil || r.SlotGroups == 0 || r.SlotGroups > stream.Slots {
		return 0, fmt.Errorf("layout %q is none: %w", value, errors.Join(err, ErrOther))
	}
	if want != 0 && want != r.SlotGroups {
		return 0, fmt.Errorf("%w: slot-groups is %d and was %d when its first event was folded; leave the setting out", ErrOther, want, r.SlotGroups)
	}
	return r.SlotGroups, nil
}

// first decides for an installation without a layout. One that has folded
// already, before there were layouts, has one group.
func first(ctx context.Context, kv jetstream.KeyValue, want uint32) (uint32, error) {
	_, err := kv.Get(ctx, Group{0, 1}.Key())
	switch {
	case err == nil:
		return 1, nil
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return max(want, 1), nil
	}
	return 0, fmt.Errorf("read layout: %w", err)
}

// Group is one of the slot groups: the slots that leave the remainder Number
// when they are divided by Of.
type Group struct {
	Number, Of uint32
}

// Key is where the bucket of checkpoints has the group's position.
func (g Group) Key() string { return fmt.Sprintf("funnel.%d", g.Number) }

// Filters returns the subjects that the group has to read, or nil for all of
// them. Group 0 reads everything: subjects that have no slot are its.
func (g Group) Filters() []string {
	if g.Number == 0 {
		return nil
	}
	var filters []string
	for slot := g.Number; slot < stream.Slots; slot += g.Of {
		filters = append(filters, stream.SlotSubjects(byte(slot)))
	}
	return filters
}

// Owns tells whether messages of a subject are the group's. It does not
// allocate.
func (g Group) Owns(subject []byte) bool {
	if g.Of == 1 {
		return true
	}
	slot, ok := stream.SubjectSlot(subject)
	if !ok {
		return g.Number == 0
	}
	return uint32(slot)%g.Of == g.Number
}

package assignment

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
)

// ErrNoLayout is the error of changing a layout that has not been decided yet.
var ErrNoLayout = errors.New("nothing has been folded yet: set the number of slot groups with MILLRACE_SLOT_GROUPS")

// Lease is the lease of a slot group.
type Lease = fold.LeaseLog[funnel.Counts]

// OpenLease reads the lease of a group, for a process that is called owner.
func OpenLease(ctx context.Context, kv jetstream.KeyValue, g slots.Group, owner string) (*Lease, error) {
	return fold.OpenLog[funnel.Counts](ctx, kv, g.Key(), owner, g.After)
}

// Checkpoints returns the records of groups, without groups that have none yet.
func Checkpoints(ctx context.Context, kv jetstream.KeyValue, groups []slots.Group) (map[uint32]funnel.Checkpoint, error) {
	records := map[uint32]funnel.Checkpoint{}
	for _, g := range groups {
		entry, err := fold.ReadLog[funnel.Counts](ctx, kv, g.Key())
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read position of slot group %d: %w", g.ID, err)
		}
		records[g.ID] = entry.Record
	}
	return records, nil
}

// Folded returns the sequence up to which all groups are folded, where each is
// folded as far as at says of its record; 0 when there are none yet.
func Folded(ctx context.Context, kv jetstream.KeyValue, at func(funnel.Checkpoint) uint64) (uint64, error) {
	l, err := ReadLayout(ctx, kv)
	if err != nil || len(l.Epochs) == 0 {
		return 0, err
	}
	records, err := Checkpoints(ctx, kv, append(l.Previous(), l.Current()...))
	if err != nil {
		return 0, err
	}
	return l.Folded(progress(records, at)), nil
}

// Durable is the sequence up to which a record says that every effect is durable.
func Durable(r funnel.Checkpoint) uint64 { return r.From }

// progress is how far the groups of some records are, as at says of each.
func progress(records map[uint32]funnel.Checkpoint, at func(funnel.Checkpoint) uint64) slots.Progress {
	return func(id uint32) (uint64, bool) {
		r, known := records[id]
		return at(r), known
	}
}

// Left returns the groups before the last epoch that have not ended.
func Left(ctx context.Context, kv jetstream.KeyValue, l slots.Layout) ([]slots.Group, error) {
	records, err := Checkpoints(ctx, kv, l.Previous())
	if err != nil {
		return nil, err
	}
	return l.Left(progress(records, Durable)), nil
}

// Regroup asks for a change to so many groups, which the projectors then carry
// out; asking again for the same changes nothing. It returns false when there
// are as many already, and slots.ErrUnderWay while a change to another number
// is not complete.
func Regroup(ctx context.Context, kv jetstream.KeyValue, groups uint32) (underWay bool, err error) {
	for {
		s, err := read(ctx, kv)
		switch {
		case err != nil:
			return false, err
		case s.revision == 0:
			return false, ErrNoLayout
		case s.Next > 0 && s.Next == groups:
			return true, nil
		}
		next, err := s.Ask(groups)
		if err != nil {
			return false, err
		}
		left, err := Left(ctx, kv, s.Layout)
		if err != nil {
			return false, err
		}
		switch same := len(s.Current()) == int(groups); {
		case len(left) > 0 && !same:
			return false, fmt.Errorf("%w, to %d", slots.ErrUnderWay, len(s.Current()))
		case same:
			return len(left) > 0, nil
		}
		if swapped, err := s.swap(ctx, kv, next); swapped || err != nil {
			return swapped, err
		}
	}
}

// CutLayout begins the groups of a change that has been asked for. It closes those groups
// of the last epoch that may allows, and when all are closed, adds the epoch behind
// them. It returns false while some are not closed, or when another projector was
// faster: the caller then calls it again.
func CutLayout(
	ctx context.Context, kv jetstream.KeyValue, may func(slots.Group, *Lease) bool,
) (cut bool, err error) {
	s, err := read(ctx, kv)
	if err != nil || s.Next == 0 {
		return false, err
	}
	var end uint64
	for _, g := range s.Current() {
		log, err := OpenLease(ctx, kv, g, "")
		if err != nil {
			return false, err
		}
		if !log.Record().Closing {
			if !may(g, log) {
				return false, nil
			}
			if err := log.Close(ctx); err != nil {
				return false, err
			}
		}
		end = max(end, log.Record().To)
	}
	next, err := s.Cut(end)
	if err != nil {
		return false, err
	}
	return s.swap(ctx, kv, next)
}

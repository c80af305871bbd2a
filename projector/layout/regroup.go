package layout

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/schemas/slots"
)

// ErrNone is the error of changing a layout that has not been decided yet.
var ErrNone = errors.New("nothing has been folded yet: set the number of slot groups with MILLRACE_SLOT_GROUPS")

// Positions returns up to where everything of a layout's groups has every
// effect, as the bucket says. Those of which nothing is written are left out.
func Positions(ctx context.Context, kv jetstream.KeyValue, groups []slots.Group) (map[uint32]uint64, error) {
	at := map[uint32]uint64{}
	for _, g := range groups {
		entry, err := kv.Get(ctx, g.Key())
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read position of slot group %d: %w", g.ID, err)
		}
		r, err := checkpoint.Parse(entry.Value())
		if err != nil {
			return nil, fmt.Errorf("read position of slot group %d: %w", g.ID, err)
		}
		at[g.ID] = r.From
	}
	return at, nil
}

// Left returns the groups before the last epoch that have not ended.
func Left(ctx context.Context, kv jetstream.KeyValue, l slots.Layout) ([]slots.Group, error) {
	at, err := Positions(ctx, kv, l.Previous())
	if err != nil {
		return nil, err
	}
	return l.Left(func(id uint32) (uint64, bool) { seq, known := at[id]; return seq, known }), nil
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
			return false, ErrNone
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

// Cut carries a change that has been asked for to where its groups begin. It
// closes every group of the last epoch that may decides, then adds the epoch
// behind all of them. It returns false while there are others, or when someone
// else was faster: then it is to be called again.
func Cut(ctx context.Context, kv jetstream.KeyValue, may func(slots.Group, *checkpoint.Log) bool) (cut bool, err error) {
	s, err := read(ctx, kv)
	if err != nil || s.Next == 0 {
		return false, err
	}
	var end uint64
	for _, g := range s.Current() {
		log, err := checkpoint.Open(ctx, kv, g.Key(), "", g.After)
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

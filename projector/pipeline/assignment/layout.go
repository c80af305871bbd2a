package assignment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/slots"
)

// ErrUnknownLayout is the error of a layout that this program cannot read.
var ErrUnknownLayout = errors.New("the layout of slot groups cannot be read: a newer millrace has changed it")

// ErrLost is the error of a layout that is gone, or that the server which
// answered does not have yet.
var ErrLost = fmt.Errorf(
	"slot groups have been folded, and the key %s that says which there are is gone: restore the bucket from a backup",
	slots.Key,
)

// state is a layout and its revision.
type state struct {
	slots.Layout
	revision uint64 // 0: there is none yet
}

// ReadLayout returns the layout, the zero value when none has been decided yet.
func ReadLayout(ctx context.Context, kv jetstream.KeyValue) (slots.Layout, error) {
	s, err := read(ctx, kv)
	return s.Layout, err
}

func read(ctx context.Context, kv jetstream.KeyValue) (state, error) {
	entry, err := kv.Get(ctx, slots.Key)
	if errors.Is(err, jetstream.ErrKeyNotFound) { // there is none, or it was deleted
		s, err := restore(ctx, kv)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return state{}, nil
		}
		return s, err
	}
	if err != nil {
		return state{}, fmt.Errorf("read layout: %w", err)
	}
	l, err := slots.Parse(entry.Value())
	if err != nil && !json.Valid(entry.Value()) {
		return restore(ctx, kv)
	}
	if err != nil {
		return state{}, fmt.Errorf("%w: %w", ErrUnknownLayout, err)
	}
	return state{l, entry.Revision()}, nil
}

// restore puts the last valid layout back in place of a value that is no layout,
// whoever wrote that. Projectors write by compare-and-swap alone: since the value
// came, none of them has changed the layout.
func restore(ctx context.Context, kv jetstream.KeyValue) (state, error) {
	revisions, err := fold.History(ctx, kv, slots.Key)
	if err != nil {
		return state{}, fmt.Errorf("read layout: %w", err)
	}
	for _, revision := range slices.Backward(revisions) {
		l, err := slots.Parse(revision.Value())
		if err != nil {
			continue
		}
		at, err := kv.Update(ctx, slots.Key, revision.Value(), revisions[len(revisions)-1].Revision())
		if err != nil {
			return state{}, fmt.Errorf("restore layout: %w", err)
		}
		return state{l, at}, nil
	}
	return state{}, fmt.Errorf("%w: %.100q", ErrUnknownLayout, revisions[len(revisions)-1].Value())
}

// swap writes a layout if nobody has written since it was read. It returns an error
// if the outcome is not known; the next read shows it.
func (s state) swap(ctx context.Context, kv jetstream.KeyValue, next slots.Layout) (swapped bool, err error) {
	value, err := next.Encode()
	if err == nil {
		_, err = kv.Update(ctx, slots.Key, value, s.revision)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write layout: %w", err)
	}
	return true, nil
}

// AgreeLayout returns the installation's layout. The first caller decides it: want
// groups, or 1 where want is 0. Later ones take it as it is.
func AgreeLayout(ctx context.Context, kv jetstream.KeyValue, want uint32) (slots.Layout, error) {
	for {
		s, err := read(ctx, kv)
		if err != nil || s.revision > 0 {
			return s.Layout, err
		}
		groups, err := first(ctx, kv, want)
		if err != nil {
			return slots.Layout{}, err
		}
		l, err := slots.New(groups)
		if err != nil {
			return l, err
		}
		if swapped, err := s.swap(ctx, kv, l); swapped || err != nil {
			return l, err
		}
	}
}

// first decides the number of groups for an installation without a layout. An
// installation that has folded before there were layouts has one group. If there are
// several groups, or one has ended, the layout was lost: a new one would have
// messages folded twice, or left out.
func first(ctx context.Context, kv jetstream.KeyValue, want uint32) (uint32, error) {
	records, err := Checkpoints(ctx, kv, []slots.Group{{ID: 0}, {ID: 1}})
	if err != nil {
		return 0, fmt.Errorf("read layout: %w", err)
	}
	one, folded := records[0]
	if _, more := records[1]; more || one.Closing {
		return 0, ErrLost
	}
	if folded {
		return 1, nil
	}
	return max(want, 1), nil
}

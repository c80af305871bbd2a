// Package layout agrees on the slot groups of an installation, and changes them,
// by compare-and-swap on a NATS key. The rules are those of package slots.
package layout

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/slots"
)

// ErrUnknown is the error of a layout that this program cannot read.
var ErrUnknown = errors.New("the layout of slot groups cannot be read: a newer millrace has changed it")

// state is a layout and its revision.
type state struct {
	slots.Layout
	revision uint64 // 0: there is none yet
}

// Read returns the layout, the zero value when none has been decided yet.
func Read(ctx context.Context, kv jetstream.KeyValue) (slots.Layout, error) {
	s, err := read(ctx, kv)
	return s.Layout, err
}

func read(ctx context.Context, kv jetstream.KeyValue) (state, error) {
	entry, err := kv.Get(ctx, slots.Key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read layout: %w", err)
	}
	l, err := slots.Parse(entry.Value())
	if err != nil {
		return state{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return state{l, entry.Revision()}, nil
}

// swap writes a layout if nobody has written since it was read. Where the
// outcome is not known it returns an error, and the next one to read finds out.
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

// Agree returns the installation's layout. The first caller decides it: want
// groups, or 1 where want is 0. Later ones take it as it is.
func Agree(ctx context.Context, kv jetstream.KeyValue, want uint32) (slots.Layout, error) {
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

// first decides for an installation without a layout. One that has folded
// already, before there were layouts, has one group.
func first(ctx context.Context, kv jetstream.KeyValue, want uint32) (uint32, error) {
	_, err := kv.Get(ctx, slots.Group{}.Key())
	switch {
	case err == nil:
		return 1, nil
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return max(want, 1), nil
	}
	return 0, fmt.Errorf("read layout: %w", err)
}

package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// ErrDamaged is the error of a position that cannot be read, and of which no
// revision before is kept that can. It is to be written by hand then:
//
//	nats kv put millrace_checkpoints funnel.0 '{"from":N,"to":N}'
//
// with the last sequence N that the group's rows reach (or one before, for all
// of these rows are known by their sequences).
var ErrDamaged = errors.New("its value is not a position, and no revision of it is kept that is one")

// Entry is a group's position as the bucket has it.
type Entry struct {
	Record
	Revision uint64 // the last one of the key; 0: it does not exist
	// Damage says what stands in the last revision where that is no position.
	// The record is then that of the last revision that is one.
	//
	// To go on from there is right: projectors write by compare-and-swap alone.
	// Whatever came between is not theirs, and since it came, nobody has
	// decided anything.
	Damage error
}

// Read reads the position under a key, or jetstream.ErrKeyNotFound when there
// has never been one.
func Read(ctx context.Context, kv jetstream.KeyValue, key string) (Entry, error) {
	last, err := kv.Get(ctx, key)
	if err == nil {
		r, damage := funnel.ParseCheckpoint(last.Value())
		if damage == nil {
			return Entry{Record: r, Revision: last.Revision()}, nil
		}
		return readBefore(ctx, kv, key)
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return readBefore(ctx, kv, key) // it may have been deleted
	}
	return Entry{}, err
}

// readBefore returns the last position among the revisions that are kept.
func readBefore(ctx context.Context, kv jetstream.KeyValue, key string) (e Entry, err error) {
	revisions, err := kv.History(ctx, key)
	if err != nil {
		return e, err
	}
	found := false
	for _, revision := range revisions { // the oldest comes first
		e.Revision = revision.Revision()
		r, damage := parseRevision(revision)
		if e.Damage = damage; damage == nil {
			e.Record, found = r, true
		}
	}
	if !found {
		return e, fmt.Errorf("%w: %w", ErrDamaged, e.Damage)
	}
	return e, nil
}

func parseRevision(e jetstream.KeyValueEntry) (Record, error) {
	if e.Operation() != jetstream.KeyValuePut {
		return Record{}, errors.New("it was deleted")
	}
	return funnel.ParseCheckpoint(e.Value())
}

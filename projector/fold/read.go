package fold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// ErrDamaged is the error of a position that cannot be read, and of which no
// revision before is kept that can. It is to be written by hand then:
//
//	nats kv put millrace_checkpoints funnel.0 '{"from":N,"to":N}'
//
// with the last sequence N that the view's rows reach (or one before, for all
// of these rows are known by their sequences).
var ErrDamaged = errors.New("its value is not a position, and no revision of it is kept that is one")

// Entry is the position of a fold as the bucket has it.
type Entry[V any] struct {
	checkpoint.Record[V]
	Revision uint64 // the last one of the key; 0: it does not exist
	// Damage says what stands in the last revision where that is no position.
	// The record is then that of the last revision that is one.
	//
	// To go on from there is right: owners write by compare-and-swap alone.
	// Whatever came between is not theirs, and since it came, nobody has
	// decided anything.
	Damage error
}

// ReadLog reads the position under a key, or jetstream.ErrKeyNotFound when there
// has never been one.
func ReadLog[V any](ctx context.Context, kv jetstream.KeyValue, key string) (Entry[V], error) {
	last, err := kv.Get(ctx, key)
	if err == nil {
		r, damage := checkpoint.Parse[V](last.Value())
		if damage == nil {
			return Entry[V]{Record: r, Revision: last.Revision()}, nil
		}
		return readBefore[V](ctx, kv, key)
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return readBefore[V](ctx, kv, key) // it may have been deleted
	}
	return Entry[V]{}, err
}

// historyWait is how long the revisions of a key may take to come.
const historyWait = 10 * time.Second

// History returns the revisions of a key that are kept, the oldest first. Where the server
// skips a damaged one, the mark of the end never comes: after 10 seconds that is an error.
func History(ctx context.Context, kv jetstream.KeyValue, key string) ([]jetstream.KeyValueEntry, error) {
	bounded, cancel := context.WithTimeout(ctx, historyWait)
	defer cancel()
	revisions, err := kv.History(bounded, key)
	if bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("read the revisions of %s in the bucket %s: they come to no end within %s: "+
			"one is damaged, or NATS is too slow", key, kv.Bucket(), historyWait)
	}
	return revisions, err
}

// readBefore returns the last position among the revisions that are kept.
func readBefore[V any](ctx context.Context, kv jetstream.KeyValue, key string) (e Entry[V], err error) {
	revisions, err := History(ctx, kv, key)
	if err != nil {
		return e, err
	}
	found := false
	for _, revision := range revisions { // the oldest comes first
		e.Revision = revision.Revision()
		r, damage := parseRevision[V](revision)
		if e.Damage = damage; damage == nil {
			e.Record, found = r, true
		}
	}
	if !found {
		return e, fmt.Errorf("%w: %w", ErrDamaged, e.Damage)
	}
	return e, nil
}

func parseRevision[V any](e jetstream.KeyValueEntry) (checkpoint.Record[V], error) {
	if e.Operation() != jetstream.KeyValuePut {
		return checkpoint.Record[V]{}, errors.New("it was deleted")
	}
	return checkpoint.Parse[V](e.Value())
}

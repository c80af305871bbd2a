// Package checkpoint decides the bounds of batches, one after the other, for
// all projectors of a slot group, by compare-and-swap on a NATS key.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// ErrLost is the error of a projector that another one has replaced.
var ErrLost = errors.New("another projector has taken over the slot group")

// attempt bounds one request: when a connection is lost, the answer never comes.
const attempt = 2 * time.Second

// Record is a group's position, Known what the group has counted, and Baseline what that
// rests on.
type (
	Record   = funnel.Checkpoint
	Known    = funnel.Known
	Baseline = funnel.Baseline
)

// Log is the sequence of decisions of one group. One goroutine at a time may use
// it; Know may be called beside that.
type Log struct {
	kv       jetstream.KeyValue
	key      string
	owner    string
	after    uint64
	record   Record
	baseline Baseline // of what is written next
	known    atomic.Pointer[Known]
	revision uint64 // 0: the key does not exist yet
	damage   error
}

// Open reads the position under a key of the bucket: where there is none, the
// group begins after a sequence. owner names the projector, the same after a
// restart.
func Open(ctx context.Context, kv jetstream.KeyValue, key, owner string, after uint64) (*Log, error) {
	l := &Log{kv: kv, key: key, owner: owner, after: after}
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Record returns the position as last read or written.
func (l *Log) Record() Record { return l.record }

// Position returns the bounds of the record.
func (l *Log) Position() (from, to uint64) { return l.record.From, l.record.To }

// Damage says what stood in the place of the position when Open read it; nil: it was
// a position. With damage, the position is the last one before, and the next write
// puts it back.
func (l *Log) Damage() error { return l.damage }

// Revision changes whenever the position has been written by anyone.
func (l *Log) Revision() uint64 { return l.revision }

func (l *Log) read(ctx context.Context) error {
	e, err := Read(ctx, l.kv, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.record, l.revision = Record{From: l.after, To: l.after}, 0
		l.Know(Known{})
		return nil
	}
	if err != nil {
		return fmt.Errorf("read checkpoint %s: %w", l.key, err)
	}
	l.record, l.baseline, l.revision, l.damage = e.Record, e.Record.Baseline, e.Revision, e.Damage
	l.Know(e.Record.Known)
	return nil
}

// Known returns what Know was last told, or what Open has read. It may be called beside
// other methods.
func (l *Log) Known() Known { return *l.known.Load() }

// Know has the records that are written from now on say what the group has counted,
// once its position has reached that. It may be called beside other methods.
func (l *Log) Know(k Known) { l.known.Store(&k) }

// Forget has the group's record say nothing of what it has counted, and gives
// the group up: whoever takes it believes what ClickHouse has, which is another baseline.
func (l *Log) Forget(ctx context.Context) error {
	l.record.Known = Known{}
	l.Know(Known{})
	l.baseline = Baseline{Number: l.baseline.Number + 1, Accepted: l.baseline.Accepted + 1}
	return l.disown(ctx, Record{From: l.record.From, To: l.record.To, Delta: l.record.Delta})
}

// Rebase begins another baseline, in which ClickHouse lacks so many identities of what was
// counted.
func (l *Log) Rebase(ctx context.Context, missing uint64) error {
	l.baseline.Number++
	l.baseline.Missing = missing
	return l.swap(ctx, Record{From: l.record.From, To: l.record.To, Delta: l.record.Delta})
}

// Take makes this projector the owner. A batch that has been decided stays so.
func (l *Log) Take(ctx context.Context) error {
	return l.swap(ctx, Record{From: l.record.From, To: l.record.To, Delta: l.record.Delta})
}

// Decide fixes the bounds of the next batch, (from, to], which will be announced
// with this digest, and says that everything up to from has every effect. It
// returns ErrLost, before anything has changed, when another projector has
// written since.
func (l *Log) Decide(ctx context.Context, from, to uint64, delta string) error {
	if decided := l.record.To > l.record.From && from < l.record.To; decided {
		if from == l.record.From && to == l.record.To && l.record.Owner == l.owner {
			if delta == l.record.Delta {
				return nil
			}
			return l.swap(ctx, Record{From: from, To: to, Delta: delta}) // by other stages, it is announced otherwise
		}
		return fmt.Errorf("checkpoint %s: batch (%d, %d] is decided, (%d, %d] can't be", l.key, l.record.From,
			l.record.To, from, to)
	}
	if from < l.record.From || to < from {
		return fmt.Errorf("checkpoint %s: (%d, %d] lies before (%d, %d]", l.key, from, to, l.record.From, l.record.To)
	}
	return l.swap(ctx, Record{From: from, To: to, Delta: delta})
}

// Done says that everything up to the position has every effect, that no batch
// is decided, and up to where the group has caught up, if that is known. It is
// also the sign of life of an idle owner.
func (l *Log) Done(ctx context.Context, position, caughtUp uint64) error {
	if position < l.record.To {
		return fmt.Errorf("checkpoint %s: position %d lies before %d", l.key, position, l.record.To)
	}
	return l.swap(ctx, Record{From: position, To: position, CaughtUp: caughtUp})
}

// Renew says that the owner is alive, and changes nothing else.
func (l *Log) Renew(ctx context.Context) error { return l.swap(ctx, l.record) }

// Release gives the group up, so that another projector may take it at once.
func (l *Log) Release(ctx context.Context) error {
	return l.disown(ctx, Record{From: l.record.From, To: l.record.To, Delta: l.record.Delta})
}

// Close makes the group one that ends with its epoch, and that nobody owns. A
// batch that has been decided stays so; whoever owned the group decides no more.
func (l *Log) Close(ctx context.Context) error {
	return l.disown(ctx, Record{From: l.record.From, To: l.record.To, Delta: l.record.Delta, Closing: true})
}

func (l *Log) disown(ctx context.Context, next Record) error {
	owner := l.owner
	l.owner = ""
	defer func() { l.owner = owner }()
	return l.swap(ctx, next)
}

// swap writes the record if nobody has written since it was read. When the
// outcome is unknown it asks, for as long as ctx lives.
func (l *Log) swap(ctx context.Context, next Record) error {
	next.Owner, next.At, next.Baseline = l.owner, time.Now().UTC(), l.baseline
	next.Closing = next.Closing || l.record.Closing
	if known := l.known.Load(); known.At <= next.From {
		next.Known = *known
	} else {
		next.Known = l.record.Known
	}
	value, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("write checkpoint %s: %w", l.key, err)
	}
	err = backoff.Do(ctx, func() error {
		revision, failure := l.write(ctx, value)
		if failure == nil {
			l.record, l.revision, l.damage = next, revision, nil
			return nil
		}
		written, err := l.resolve(ctx, string(value))
		switch {
		case written || errors.Is(err, ErrLost):
			return retry.Stop(err)
		case err == nil: // nothing has changed
			return failure
		}
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("write checkpoint %s: %w", l.key, err)
	}
	return nil
}

// backoff is how long to wait before a record is written again.
var backoff = retry.Backoff{First: 10 * time.Millisecond, Most: time.Second}

func (l *Log) write(ctx context.Context, value []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return l.kv.Update(ctx, l.key, value, l.revision)
}

// resolve finds out what a failed write has done: ours is there, somebody
// else's is, or nothing has changed and the write may be tried again.
func (l *Log) resolve(ctx context.Context, ours string) (written bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	entry, err := l.kv.Get(ctx, l.key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound) && l.revision == 0:
		return false, nil
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return false, fmt.Errorf("it was deleted: %w", ErrLost)
	case err != nil:
		return false, err
	case entry.Revision() == l.revision:
		return false, nil
	case string(entry.Value()) != ours:
		return false, ErrLost
	}
	l.revision = entry.Revision()
	return true, json.Unmarshal(entry.Value(), &l.record)
}

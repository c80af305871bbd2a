// Package checkpoint decides the bounds of batches, one after the other, for
// all projectors of a slot group, by compare-and-swap on a NATS key.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrLost is the error of a projector that another one has replaced.
var ErrLost = errors.New("another projector has taken over the slot group")

// attempt bounds one request. One that has been answered over a connection
// that was lost meanwhile is never answered.
const attempt = 2 * time.Second

// Record is a group's position in its stream. Everything up to From has every
// effect; the batch (From, To], if To is larger, has been decided and may have
// some.
type Record struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Owner string `json:"owner"`
	// CaughtUp is the sequence up to which, as the broker said, nothing
	// behind From was for this group. It is for readers who want to know how
	// current a view is, and no position: 0 when it is not known.
	CaughtUp uint64    `json:"caught_up,omitempty"`
	At       time.Time `json:"at"` // when it was written, by the owner's clock
	// Closing says that the group is not to be folded beyond the end of its
	// epoch, which the layout has. It stays so.
	Closing bool `json:"closing,omitempty"`
}

// Log is the sequence of decisions of one group. It is not safe for
// concurrent use.
type Log struct {
	kv       jetstream.KeyValue
	key      string
	owner    string
	after    uint64
	record   Record
	revision uint64 // 0: the key does not exist yet
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

// Revision changes whenever the position has been written by anyone.
func (l *Log) Revision() uint64 { return l.revision }

func (l *Log) read(ctx context.Context) error {
	entry, err := l.kv.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.record, l.revision = Record{From: l.after, To: l.after}, 0
		return nil
	}
	if err != nil {
		return fmt.Errorf("read checkpoint %s: %w", l.key, err)
	}
	r, err := Parse(entry.Value())
	if err != nil {
		return fmt.Errorf("read checkpoint %s: %w", l.key, err)
	}
	l.record, l.revision = r, entry.Revision()
	return nil
}

// Take makes this projector the owner. A batch that has been decided stays so.
func (l *Log) Take(ctx context.Context) error {
	return l.swap(ctx, Record{From: l.record.From, To: l.record.To})
}

// Decide fixes the bounds of the next batch, (from, to], and says that
// everything up to from has every effect. It returns ErrLost, before anything
// has changed, when another projector has written since.
func (l *Log) Decide(ctx context.Context, from, to uint64) error {
	if decided := l.record.To > l.record.From && from < l.record.To; decided {
		if from == l.record.From && to == l.record.To && l.record.Owner == l.owner {
			return nil
		}
		return fmt.Errorf("checkpoint %s: batch (%d, %d] is decided, (%d, %d] can't be", l.key, l.record.From, l.record.To, from, to)
	}
	if from < l.record.From || to < from {
		return fmt.Errorf("checkpoint %s: (%d, %d] lies before (%d, %d]", l.key, from, to, l.record.From, l.record.To)
	}
	return l.swap(ctx, Record{From: from, To: to})
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

// Skip gives a decided batch up, because its messages are gone.
func (l *Log) Skip(ctx context.Context) error {
	return l.swap(ctx, Record{From: l.record.To, To: l.record.To})
}

// Release gives the group up, so that another projector may take it at once.
func (l *Log) Release(ctx context.Context) error {
	return l.disown(ctx, Record{From: l.record.From, To: l.record.To})
}

// Close makes the group one that ends with its epoch, and that nobody owns. A
// batch that has been decided stays so; whoever owned the group decides no more.
func (l *Log) Close(ctx context.Context) error {
	return l.disown(ctx, Record{From: l.record.From, To: l.record.To, Closing: true})
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
	next.Owner, next.At = l.owner, time.Now().UTC()
	next.Closing = next.Closing || l.record.Closing
	value, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("write checkpoint %s: %w", l.key, err)
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		revision, err := l.write(ctx, value)
		if err == nil {
			l.record, l.revision = next, revision
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("write checkpoint %s: %w", l.key, err)
		}
		written, err := l.resolve(ctx, string(value))
		if written || errors.Is(err, ErrLost) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("write checkpoint %s: %w", l.key, ctx.Err())
		case <-time.After(wait):
		}
	}
}

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
	case err != nil:
		return false, err
	case entry.Revision() == l.revision:
		return false, nil
	case string(entry.Value()) != ours:
		return false, fmt.Errorf("checkpoint %s: %w", l.key, ErrLost)
	}
	l.revision = entry.Revision()
	return true, json.Unmarshal(entry.Value(), &l.record)
}

package fold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// ErrLost is the error of an owner that another one has replaced.
var ErrLost = errors.New("another process has taken over the fold")

// attempt bounds one request: when a connection is lost, the answer never comes.
const attempt = 2 * time.Second

// LeaseLog is the sequence of decisions of one fold, whose view keeps V beside its position.
// One goroutine at a time may use it.
type LeaseLog[V any] struct {
	kv       jetstream.KeyValue
	key      string
	owner    string
	after    uint64
	record   checkpoint.Record[V]
	view     func(from uint64, last V) V
	revision uint64 // 0: the key does not exist yet
	damage   error
}

// OpenLog reads the position under a key of the bucket: where there is none, the
// fold begins after a sequence. owner names the process, the same after a restart.
func OpenLog[V any](ctx context.Context, kv jetstream.KeyValue, key, owner string, after uint64) (*LeaseLog[V], error) {
	l := &LeaseLog[V]{kv: kv, key: key, owner: owner, after: after}
	l.Keep(func(_ uint64, last V) V { return last })
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Record returns the position as last read or written.
func (l *LeaseLog[V]) Record() checkpoint.Record[V] { return l.record }

// Position returns the bounds of the record.
func (l *LeaseLog[V]) Position() (from, to uint64) { return l.record.From, l.record.To }

// Damage says what stood in the place of the position when Open read it; nil: it was
// a position. With damage, the position is the last one before, and the next write
// puts it back.
func (l *LeaseLog[V]) Damage() error { return l.damage }

// Revision changes whenever the position has been written by anyone.
func (l *LeaseLog[V]) Revision() uint64 { return l.revision }

func (l *LeaseLog[V]) read(ctx context.Context) error {
	e, err := ReadLog[V](ctx, l.kv, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.record, l.revision = checkpoint.Record[V]{From: l.after, To: l.after}, 0
		return nil
	}
	if err != nil {
		return fmt.Errorf("read checkpoint %s: %w", l.key, err)
	}
	l.record, l.revision, l.damage = e.Record, e.Revision, e.Damage
	return nil
}

// Keep sets what the records say that are written from now on: view is called with the
// position of the record, and with what the record before says.
func (l *LeaseLog[V]) Keep(view func(from uint64, last V) V) { l.view = view }

// Take makes this process the owner. A batch that has been decided stays so.
func (l *LeaseLog[V]) Take(ctx context.Context) error {
	return l.swap(ctx, l.position())
}

// Decide fixes the bounds of the next batch, (from, to], which will be announced
// with this digest, and says that everything up to from has every effect. It
// returns ErrLost, before anything has changed, when another process has written
// since.
func (l *LeaseLog[V]) Decide(ctx context.Context, from, to uint64, digest string) error {
	if decided := l.record.To > l.record.From && from < l.record.To; decided {
		if from == l.record.From && to == l.record.To && l.record.Owner == l.owner {
			if digest == l.record.Digest {
				return nil
			}
			return l.swap(ctx, checkpoint.Record[V]{From: from, To: to, Digest: digest}) // it is announced otherwise
		}
		return fmt.Errorf("checkpoint %s: batch (%d, %d] is decided, (%d, %d] can't be", l.key, l.record.From,
			l.record.To, from, to)
	}
	if from < l.record.From || to < from {
		return fmt.Errorf("checkpoint %s: (%d, %d] lies before (%d, %d]", l.key, from, to, l.record.From, l.record.To)
	}
	return l.swap(ctx, checkpoint.Record[V]{From: from, To: to, Digest: digest})
}

// Done says that everything up to the position has every effect, that no batch
// is decided, and up to where the fold has caught up, if that is known. It is
// also the sign of life of an idle owner.
func (l *LeaseLog[V]) Done(ctx context.Context, position, caughtUp uint64) error {
	if position < l.record.To {
		return fmt.Errorf("checkpoint %s: position %d lies before %d", l.key, position, l.record.To)
	}
	return l.swap(ctx, checkpoint.Record[V]{From: position, To: position, CaughtUp: caughtUp})
}

// Renew says that the owner is alive, and changes nothing else.
func (l *LeaseLog[V]) Renew(ctx context.Context) error { return l.swap(ctx, l.record) }

// Release gives the fold up, so that another process may take it at once.
func (l *LeaseLog[V]) Release(ctx context.Context) error {
	return l.disown(ctx, l.position())
}

// Close makes the fold one that ends with its epoch, and that nobody owns. A batch
// that has been decided stays so; whoever owned the fold decides no more.
func (l *LeaseLog[V]) Close(ctx context.Context) error {
	next := l.position()
	next.Closing = true
	return l.disown(ctx, next)
}

// position is a record that says where the fold is, and nothing else.
func (l *LeaseLog[V]) position() checkpoint.Record[V] {
	return checkpoint.Record[V]{From: l.record.From, To: l.record.To, Digest: l.record.Digest}
}

func (l *LeaseLog[V]) disown(ctx context.Context, next checkpoint.Record[V]) error {
	owner := l.owner
	l.owner = ""
	defer func() { l.owner = owner }()
	return l.swap(ctx, next)
}

// swap writes the record if nobody has written since it was read. When the
// outcome is unknown it asks, for as long as ctx lives.
func (l *LeaseLog[V]) swap(ctx context.Context, next checkpoint.Record[V]) error {
	next.Owner, next.At, next.View = l.owner, time.Now().UTC(), l.view(next.From, l.record.View)
	next.Closing = next.Closing || l.record.Closing
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

func (l *LeaseLog[V]) write(ctx context.Context, value []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return l.kv.Update(ctx, l.key, value, l.revision)
}

// resolve finds out what a failed write has done: ours is there, somebody
// else's is, or nothing has changed and the write may be tried again.
func (l *LeaseLog[V]) resolve(ctx context.Context, ours string) (written bool, err error) {
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

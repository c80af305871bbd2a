// Package pglease is the lease of a fold whose position moves in the transactions of
// Postgres that store its effects.
//
// Such a batch needs no decided cut: its effects and the position commit together, or
// not at all, and the next session begins where the last transaction has left it. Only
// the position decides who may fold. A transaction moves it from where its process has
// seen it, so a process that another one has replaced commits nothing more. Package
// leader elects the process that folds.
package pglease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/projector/fold"
)

// ErrLost is the error of a process that has stood still while another one has moved
// the position.
var ErrLost = errors.New("another process has moved the position")

// Lease is the position of a fold. One goroutine at a time may move it, and others may
// renew it meanwhile. It implements fold.Lease.
type Lease struct {
	pool   *pgxpool.Pool
	stream string

	// read are the messages of the batch under way, in their order. One of them may be where
	// the position moves to.
	read []fold.Message

	mu    sync.Mutex
	at    uint64     // where the last transaction has left it
	to    uint64     // where the one that is under way moves it; at, if there is none
	known fold.Known // as Open has found it
}

// Open reads the position in a stream. Where there is none yet, first says where the
// fold begins; nil: at the start of the stream.
func Open(
	ctx context.Context, pool *pgxpool.Pool, stream string, first func(context.Context) (uint64, error),
) (*Lease, error) {
	l := &Lease{pool: pool, stream: stream}
	there, err := l.find(ctx, &l.at, &l.known)
	l.to = l.at
	if err != nil || there || first == nil {
		return l, err
	}
	at, err := first(ctx)
	if err != nil {
		return nil, err
	}
	return l, l.Save(ctx, at)
}

func (l *Lease) find(ctx context.Context, at *uint64, known *fold.Known) (there bool, err error) {
	var seq *uint64
	var received *time.Time
	err = l.pool.QueryRow(ctx, "SELECT seq, known_seq, known_at FROM millrace.work_position WHERE stream = $1", l.stream).
		Scan(at, &seq, &received)
	if errors.Is(err, pgx.ErrNoRows) {
		*at = 0
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the position in %s: %w", l.stream, err)
	}
	if seq != nil && received != nil {
		*known = fold.Known{Seq: *seq, Received: *received}
	}
	return true, nil
}

// sqlMove moves a position from where its process has left it. If another process has
// moved it meanwhile, the CASE yields null, which the column refuses: the transaction
// fails.
const sqlMove = `INSERT INTO millrace.work_position AS p (stream, seq, known_seq, known_at) VALUES ($1, $2, $4, $5)
	ON CONFLICT (stream) DO UPDATE SET seq = CASE WHEN p.seq = $3 THEN excluded.seq END,
		known_seq = excluded.known_seq, known_at = excluded.known_at`

// Move has a batch of statements move the position in their transaction. The caller
// tells Moved how the transaction has ended.
func (l *Lease) Move(b *pgx.Batch, seq uint64) {
	b.Queue(sqlMove, l.moving(seq)...)
}

// moving notes that a transaction begins to move the position, and returns the arguments of
// sqlMove.
func (l *Lease) moving(to uint64) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	var seq *int64
	var received *time.Time
	if i, there := slices.BinarySearchFunc(l.read, to, bySeq); there {
		seq, received = new(int64(to)), new(time.Unix(0, l.read[i].Time))
	}
	return []any{l.stream, int64(to), int64(l.at), seq, received}
}

func bySeq(m fold.Message, seq uint64) int { return cmp.Compare(m.Seq, seq) }

// Moved notes that a transaction has moved the position, or returns why it has not:
// ErrLost, or the error of the transaction.
func (l *Lease) Moved(err error, seq uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refused *pgconn.PgError
	switch {
	case err == nil:
		l.at, l.to = seq, seq
		return nil
	case errors.As(err, &refused) && refused.TableName == "work_position":
		l.to = l.at
		return fmt.Errorf("at %d in %s: %w", l.at, l.stream, ErrLost)
	}
	return err
}

// Save moves the position by itself.
func (l *Lease) Save(ctx context.Context, seq uint64) error {
	_, err := l.pool.Exec(ctx, sqlMove, l.moving(seq)...)
	if err = l.Moved(err, seq); err != nil {
		return fmt.Errorf("move the position in %s: %w", l.stream, err)
	}
	return nil
}

// Position returns where the last transaction has left the position. No batch is ever
// decided and not durable.
func (l *Lease) Position() (from, to uint64) {
	at, _ := l.bounds()
	return at, at
}

// bounds returns between which positions the present one is.
func (l *Lease) bounds() (least, most uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, max(l.at, l.to)
}

// Decide holds that the batch before has moved the position.
func (l *Lease) Decide(_ context.Context, from, to uint64, _ string) error {
	if at, _ := l.Position(); from != at {
		return fmt.Errorf("the batch (%d, %d] of %s does not begin at the position, which is %d", from, to, l.stream, at)
	}
	return nil
}

// Done moves the position back to the start of a stream that was made anew. In any
// other case a transaction has moved it already, and Done is Renew.
func (l *Lease) Done(ctx context.Context, position, _ uint64) error {
	if at, _ := l.Position(); position == at {
		return l.Renew(ctx)
	}
	return l.Save(ctx, position)
}

// Renew returns ErrLost if another process has moved the position.
func (l *Lease) Renew(ctx context.Context) error {
	var now uint64
	least, _ := l.bounds()
	if _, err := l.find(ctx, &now, new(fold.Known)); err != nil {
		return err
	}
	if _, most := l.bounds(); now < least || now > most {
		return fmt.Errorf("between %d and %d in %s, not at %d: %w", least, most, l.stream, now, ErrLost)
	}
	return nil
}

// Release has nothing to give up: whoever folds next begins at the position.
func (l *Lease) Release(context.Context) error { return nil }

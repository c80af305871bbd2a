package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// position is the sequence up to which this session has applied a stream. Its
// reader alone uses stored and whole.
type position struct {
	seq    atomic.Uint64
	stored int64
	whole  bool // all that is on the stream is read again, since that changes nothing
}

// load reads where reading goes on. A stream that ends before that has been
// made anew: it is read from its start.
func (p *position) load(ctx context.Context, pool *pgxpool.Pool, stream string, last uint64) (uint64, error) {
	if err := p.look(ctx, pool, stream, &p.stored); err != nil {
		return 0, err
	}
	from := uint64(p.stored)
	if p.whole || from > last {
		from = 0
	}
	p.seq.Store(from) // what was applied before may still be on the stream
	return from, nil
}

func (p *position) look(ctx context.Context, pool *pgxpool.Pool, stream string, into *int64) error {
	*into = 0
	err := pool.QueryRow(ctx, "SELECT seq FROM millrace.work_position WHERE stream = $1", stream).Scan(into)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read the position in %s: %w", stream, err)
	}
	return nil
}

// errOvertaken is the error of a reader that has slept while another one has
// taken its place.
var errOvertaken = errors.New("another process has read on")

// check returns errOvertaken if another process has moved the position.
func (p *position) check(ctx context.Context, pool *pgxpool.Pool, stream string) error {
	var now int64
	if err := p.look(ctx, pool, stream, &now); err != nil {
		return err
	}
	if now != p.stored {
		return fmt.Errorf("at %d in %s: %w", p.stored, stream, errOvertaken)
	}
	return nil
}

// sqlPosition moves a position from where its reader has left it. If another
// process has moved it meanwhile, the CASE yields null, which the column refuses:
// the transaction fails.
const sqlPosition = `INSERT INTO millrace.work_position AS p (stream, seq) VALUES ($1, $2)
	ON CONFLICT (stream) DO UPDATE SET seq = CASE WHEN p.seq = $3 THEN excluded.seq END`

// save moves the position by itself.
func (p *position) save(ctx context.Context, pool *pgxpool.Pool, stream string, seq uint64) error {
	_, err := pool.Exec(ctx, sqlPosition, stream, int64(seq), p.stored)
	return p.saved(err, stream, seq)
}

// saved notes that the position was moved, or says why it was not.
func (p *position) saved(err error, stream string, seq uint64) error {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		p.stored = int64(seq)
		return nil
	case errors.As(err, &refused) && refused.TableName == "work_position":
		return fmt.Errorf("at %d in %s: %w", p.stored, stream, errOvertaken)
	}
	return fmt.Errorf("write the position in %s: %w", stream, err)
}

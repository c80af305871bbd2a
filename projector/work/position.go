package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// position is how far a stream has been read, with every effect.
type position struct{ seq atomic.Uint64 }

// loadPosition reads where reading goes on. A stream that ends before that has
// been made anew: it is read from its start.
func loadPosition(ctx context.Context, pool *pgxpool.Pool, stream string, last uint64) (uint64, error) {
	var seq int64
	err := pool.QueryRow(ctx, "SELECT seq FROM millrace.work_position WHERE stream = $1", stream).Scan(&seq)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("read the position in %s: %w", stream, err)
	}
	if uint64(seq) > last {
		return 0, nil
	}
	return uint64(seq), nil
}

const sqlPosition = `INSERT INTO millrace.work_position (stream, seq) VALUES ($1, $2)
	ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq`

func savePosition(ctx context.Context, pool *pgxpool.Pool, stream string, seq uint64) error {
	if _, err := pool.Exec(ctx, sqlPosition, stream, int64(seq)); err != nil {
		return fmt.Errorf("write the position in %s: %w", stream, err)
	}
	return nil
}

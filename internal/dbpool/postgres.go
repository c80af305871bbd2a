package dbpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Postgres makes a pool, whose times are clamped, and registers its metrics. The
// configuration must not have a tracer of its own.
func Postgres(
	ctx context.Context, cfg *pgxpool.Config, reg prometheus.Registerer, name string, slow *Slow, log *slog.Logger,
) (*pgxpool.Pool, error) {
	w := &tracer{pool: name, slow: slow}
	cfg.ConnConfig.Tracer = w
	clamped, err := countClamped(reg, name, log)
	if err != nil {
		return nil, err
	}
	ClampTimes(cfg, clamped)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the pool %s: %w", name, err)
	}
	err = Register(reg, name, func() Stats {
		s := pool.Stat()
		return Stats{Active: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Waiting: int(w.Load())}
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// acquires counts the calls that wait for a connection, which the pool does
// not tell.
type acquires struct{ atomic.Int64 }

var _ pgxpool.AcquireTracer = (*acquires)(nil)

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (a *acquires) TraceAcquireStart(
	ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData,
) context.Context {
	a.Add(1)
	return ctx
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (a *acquires) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {
	a.Add(-1)
}

// Collect scans all rows. The format says what failed, and is put before an error.
func Collect[T any](rows pgx.Rows, scan pgx.RowToFunc[T], format string, args ...any) ([]T, error) {
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
	}
	return all, nil
}

// Found returns the error of a query for one row: none if there was no row. The format says what failed, and is put
// before any other error.
func Found(err, none error, format string, args ...any) error {
	if err = OrNone(err, none); err == nil || errors.Is(err, none) {
		return err
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// OrNone returns none in place of [pgx.ErrNoRows], and any other error unchanged.
func OrNone(err, none error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return none
	}
	return err
}

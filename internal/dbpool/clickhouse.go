package dbpool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
)

// ClickHouse watches a pool and registers its gauges. The pool itself does not
// tell how many calls wait, so calls have to go through what is returned.
func ClickHouse(conn driver.Conn, reg prometheus.Registerer, pool string, slow *Slow) (driver.Conn, error) {
	w := &watched{Conn: conn, pool: pool, slow: slow}
	return w, Register(reg, pool, w.stats)
}

// watched counts the calls that have or want a connection.
type watched struct {
	driver.Conn
	pool  string
	slow  *Slow
	calls atomic.Int64
}

func (w *watched) stats() Stats {
	s := w.Stats()
	return Stats{Active: s.Open, Idle: s.Idle, Waiting: max(0, int(w.calls.Load())-s.Open)}
}

func (w *watched) Ping(ctx context.Context) error {
	w.calls.Add(1)
	defer w.calls.Add(-1)
	return w.Conn.Ping(ctx)
}

func (w *watched) Exec(ctx context.Context, query string, args ...any) error {
	w.calls.Add(1)
	defer w.calls.Add(-1)
	st := statement{sql: query, args: args, begin: time.Now()}
	err := w.Conn.Exec(ctx, query, args...)
	w.slow.ended(ctx, w.pool, st, err)
	return err
}

func (w *watched) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	w.calls.Add(1)
	st := statement{sql: query, args: args, begin: time.Now()}
	rows, err := w.Conn.Query(ctx, query, args...)
	if err != nil {
		w.calls.Add(-1)
		w.slow.ended(ctx, w.pool, st, err)
		return nil, err
	}
	return &watchedRows{Rows: rows, ended: sync.OnceFunc(func() {
		w.calls.Add(-1)
		w.slow.ended(ctx, w.pool, st, rows.Err())
	})}, nil
}

// watchedRows have their connection until they are read or closed.
type watchedRows struct {
	driver.Rows
	ended func()
}

func (r *watchedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.ended()
	return false
}

func (r *watchedRows) Close() error {
	defer r.ended()
	return r.Rows.Close()
}

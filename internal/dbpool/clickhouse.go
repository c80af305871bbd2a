package dbpool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
)

// Open makes a pool whose slow statements are told of. It does not need the server to be there yet.
func Open(o *clickhouse.Options, pool string, slow *Slow) (driver.Conn, error) {
	return open(o, pool, slow)
}

func open(o *clickhouse.Options, pool string, slow *Slow) (*watched, error) {
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse: %w", err)
	}
	return &watched{Conn: conn, pool: pool, slow: slow}, nil
}

// ClickHouse makes a pool as Open does, whose connections are cut by the function that it returns, and registers its
// gauges. The pool itself does not tell how many calls wait, so calls have to go through what is returned.
func ClickHouse(
	o *clickhouse.Options, reg prometheus.Registerer, pool string, slow *Slow,
) (_ driver.Conn, cut func(), err error) {
	o, cut = Cuttable(o)
	w, err := open(o, pool, slow)
	if err != nil {
		return nil, nil, err
	}
	if err := Register(reg, pool, w.stats); err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, cut, nil
}

// EachRow runs a query and calls scan for each row, until scan returns an error.
func EachRow(ctx context.Context, conn driver.Conn, query string, args []any, scan func(driver.Rows) error) error {
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			_ = rows.Close()
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
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

// begin notes a statement that has or wants a connection. end is to be called when it has neither.
func (w *watched) begin(ctx context.Context, query string, args []any) *call {
	w.calls.Add(1)
	return &call{of: w, ctx: ctx, statement: statement{sql: query, args: args, begin: time.Now()}}
}

// call is a statement under way.
type call struct {
	statement
	of   *watched
	ctx  context.Context
	once sync.Once
}

// end may be called again, which changes nothing.
func (c *call) end(err error) {
	c.once.Do(func() {
		c.of.calls.Add(-1)
		c.of.slow.ended(c.ctx, c.of.pool, c.statement, err)
	})
}

func (w *watched) Exec(ctx context.Context, query string, args ...any) error {
	c := w.begin(ctx, query, args)
	err := w.Conn.Exec(ctx, query, args...)
	c.end(err)
	return err
}

func (w *watched) Select(ctx context.Context, dest any, query string, args ...any) error {
	c := w.begin(ctx, query, args)
	err := w.Conn.Select(ctx, dest, query, args...)
	c.end(err)
	return err
}

func (w *watched) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	c := w.begin(ctx, query, args)
	rows, err := w.Conn.Query(ctx, query, args...)
	if err != nil {
		c.end(err)
		return nil, err
	}
	return &watchedRows{rows, c}, nil
}

// watchedRows have their connection until they are read or closed.
type watchedRows struct {
	driver.Rows
	call *call
}

func (r *watchedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.call.end(r.Err())
	return false
}

func (r *watchedRows) Close() error {
	defer func() { r.call.end(r.Err()) }()
	return r.Rows.Close()
}

func (w *watched) QueryRow(ctx context.Context, query string, args ...any) driver.Row {
	c := w.begin(ctx, query, args)
	row := w.Conn.QueryRow(ctx, query, args...)
	if err := row.Err(); err != nil {
		c.end(err)
	}
	return &watchedRow{row, c}
}

// watchedRow has its connection until it is scanned.
type watchedRow struct {
	driver.Row
	call *call
}

func (r *watchedRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	r.call.end(err)
	return err
}

func (r *watchedRow) ScanStruct(dest any) error {
	err := r.Row.ScanStruct(dest)
	r.call.end(err)
	return err
}

func (w *watched) PrepareBatch(
	ctx context.Context, query string, opts ...driver.PrepareBatchOption,
) (driver.Batch, error) {
	c := w.begin(ctx, query, nil)
	batch, err := w.Conn.PrepareBatch(ctx, query, opts...)
	if err != nil {
		c.end(err)
		return nil, err
	}
	return &watchedBatch{batch, c}, nil
}

// watchedBatch has its connection until it is sent, given up or closed.
type watchedBatch struct {
	driver.Batch
	call *call
}

func (b *watchedBatch) Send() error { return b.end(b.Batch.Send) }

func (b *watchedBatch) Abort() error { return b.end(b.Batch.Abort) }

func (b *watchedBatch) Close() error { return b.end(b.Batch.Close) }

func (b *watchedBatch) end(do func() error) error {
	b.call.rows = b.Rows()
	err := do()
	b.call.end(err)
	return err
}

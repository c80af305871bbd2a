// Package store holds the queries of the query service: every SELECT is a file
// in sql, and parameters are bound.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

//go:embed sql/*.sql
var files embed.FS

// ErrUnavailable is the error of a database that is away, overloaded or too
// slow. The same query may succeed later.
var ErrUnavailable = errors.New("the database is unavailable")

// Config of a Store.
type Config struct {
	Timeout time.Duration // of a query; default 10 s
}

// Store reads the views' database. It is safe for concurrent use.
type Store struct {
	conn    driver.Conn
	timeout time.Duration
	queries map[string]string
}

// New reads the queries and does not touch the database.
func New(conn driver.Conn, cfg Config) (*Store, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	s := &Store{conn: conn, timeout: cfg.Timeout, queries: map[string]string{}}
	entries, err := fs.ReadDir(files, "sql")
	if err != nil {
		return nil, fmt.Errorf("read queries: %w", err)
	}
	for _, e := range entries {
		text, err := fs.ReadFile(files, "sql/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("read query %s: %w", e.Name(), err)
		}
		s.queries[e.Name()] = string(text)
	}
	return s, nil
}

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ping clickhouse: %w", err)
	}
	return nil
}

// params are named parameters of a query. Times are bound as nanoseconds or
// seconds since 1970: as text they would lose their fraction.
type params map[string]any

// each runs a query within the store's timeout and hands every row to scan.
func (s *Store) each(ctx context.Context, name string, p params, scan func(driver.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.run(ctx, name, p, scan); err != nil {
		return fmt.Errorf("query %s: %w", name, classify(ctx, err))
	}
	return nil
}

func (s *Store) run(ctx context.Context, name string, p params, scan func(driver.Rows) error) error {
	args := make([]any, 0, len(p))
	for key, value := range p {
		args = append(args, clickhouse.Named(key, value))
	}
	rows, err := s.conn.Query(ctx, s.queries[name], args...)
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

// Codes of exceptions that are not the query's fault.
const (
	codeTimeout     = 159
	codeTooMany     = 202
	codeMemoryLimit = 241
	codeCancelled   = 394
)

// classify marks the errors that a later attempt may not meet: all but
// exceptions, which a wrong query causes, too.
func classify(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the caller has gone
	}
	var exception *clickhouse.Exception
	if errors.As(err, &exception) {
		switch exception.Code {
		case codeTimeout, codeTooMany, codeMemoryLimit, codeCancelled:
		default:
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

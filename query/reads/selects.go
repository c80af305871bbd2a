package reads

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// ErrUnavailable is the error of a database that is away, overloaded or too
// slow. The same query may succeed later.
var ErrUnavailable = errors.New("the database is unavailable")

// Selects has the queries of a system by the names of their files. It is safe for
// concurrent use.
type Selects struct {
	conn    driver.Conn
	timeout time.Duration
	queries map[string]string
}

// NewSelects reads every file of a folder that ends in .sql, and does not touch the
// database. The timeout is that of each query; 0 stands for 10 s.
func NewSelects(conn driver.Conn, folder fs.FS, timeout time.Duration) (*Selects, error) {
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	s := &Selects{conn: conn, timeout: timeout, queries: map[string]string{}}
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".sql" {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		s.queries[entry.Name()] = string(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read queries: %w", err)
	}
	return s, nil
}

// Ping tells whether the database answers.
func (s *Selects) Ping(ctx context.Context) error {
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ping clickhouse: %w", err)
	}
	return nil
}

// Params are named parameters of a query. Bind times as nanoseconds or seconds
// since 1970: as text they would lose their fraction.
type Params map[string]any

// Each runs the query of a file within the timeout, and hands every row to scan,
// whose error ends it. It returns ErrUnavailable where a later attempt may
// succeed, and ctx's error when the caller has gone.
func (s *Selects) Each(ctx context.Context, file string, p Params, scan func(driver.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.run(ctx, file, p, scan); err != nil {
		return fmt.Errorf("query %s: %w", file, classify(ctx, err))
	}
	return nil
}

// Rows returns what scan makes of each row of a query; see Each.
func Rows[T any](
	ctx context.Context, s *Selects, file string, p Params, scan func(driver.Rows) (T, error),
) (all []T, err error) {
	err = s.Each(ctx, file, p, func(rows driver.Rows) error {
		row, err := scan(rows)
		all = append(all, row)
		return err
	})
	return all, err
}

// Map returns the second column of a query by the first; see Each.
func Map[K comparable, V any](ctx context.Context, s *Selects, file string, p Params) (map[K]V, error) {
	all := map[K]V{}
	return all, s.Each(ctx, file, p, func(rows driver.Rows) error {
		var key K
		var value V
		err := rows.Scan(&key, &value)
		all[key] = value
		return err
	})
}

func (s *Selects) run(ctx context.Context, file string, p Params, scan func(driver.Rows) error) error {
	args := make([]any, 0, len(p))
	for key, value := range p {
		args = append(args, clickhouse.Named(key, value))
	}
	return dbpool.EachRow(ctx, s.conn, s.queries[file], args, scan)
}

// classify marks the errors that a later attempt may not meet: all but
// exceptions, which a wrong query causes, too.
func classify(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the caller has gone
	}
	if !dbpool.Passes(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

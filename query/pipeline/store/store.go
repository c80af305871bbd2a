// Package store has the SELECTs of the pipeline's views, which are files in sql.
package store

import (
	"context"
	"embed"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/reads"
)

//go:embed sql/*.sql
var files embed.FS

// Store reads the tables of the pipeline. It is safe for concurrent use.
type Store struct{ set *reads.Selects }

// New reads the queries and does not touch the database. The timeout is that of
// each query; 0 stands for 10 s.
func New(conn driver.Conn, timeout time.Duration) (*Store, error) {
	set, err := reads.NewSelects(conn, files, timeout)
	return &Store{set}, err
}

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.set.Ping(ctx) }

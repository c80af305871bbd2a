// Package clickhouse copies the tables of the views' database as columns, and puts them back.
//
// ClickHouse's own BACKUP does not say at which moment it looked, and takes all rows. This package knows when a
// copy's view of a table is fixed (a SELECT has its parts when its first block comes), and takes only rows up to a
// position of the stream. Files are in ClickHouse's Native format, compressed by zstd, so clickhouse-client reads
// them, too.
package clickhouse

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/clickhouse-go/v2"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// Store is the name under which the manifest has what this package needs.
const Store = "clickhouse"

// Info is what the manifest says of the tables.
type Info struct {
	Server   string  `json:"server"`
	Versions []int64 `json:"versions"` // of the migrations
	Parts    []Part  `json:"parts"`
	Events   *Events `json:"events,omitempty"`
}

// Events says of the table of events what sets that have this one as their base need to know.
type Events struct {
	Cuts []uint64 `json:"cuts"` // up to which sequence the lasting parts have each slot
	Sum  string   `json:"sum"`  // number and sum of those events
}

// Part is rows of a table, in a file.
type Part struct {
	File  string `json:"file"`
	Table string `json:"table"`
	Where string `json:"where,omitempty"` // which rows; empty: all
	Rows  int64  `json:"rows"`
	Lasts bool   `json:"lasts,omitempty"` // its rows do not change: sets that follow may refer to it
}

// Database is the views' database on a server.
type Database struct {
	opts *clickhouse.Options
	db   *sql.DB
}

// Open prepares the connections.
func Open(opts *clickhouse.Options) *Database { return &Database{opts, clickhouse.OpenDB(opts)} }

// Close closes the connections.
func (d *Database) Close() error { return d.db.Close() }

// Server returns the version of the server.
func (d *Database) Server(ctx context.Context) (version string, err error) {
	if err := d.db.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return "", fmt.Errorf("ask ClickHouse for its version: %w", err)
	}
	return version, nil
}

// Versions are the numbers of the migrations that the database has.
func (d *Database) Versions(ctx context.Context) ([]int64, error) { return schema.Applied(ctx, d.db) }

// Text returns what a query says in one row of one column.
func (d *Database) Text(ctx context.Context, query string) (text string, err error) {
	if err := d.db.QueryRowContext(ctx, query).Scan(&text); err != nil {
		return "", fmt.Errorf("read ClickHouse: %w", err)
	}
	return text, nil
}

// Tables lists the tables that hold rows, but for the one of the migrations.
func (d *Database) Tables(ctx context.Context) ([]string, error) {
	return d.list(ctx, `SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
		AND name != $1 ORDER BY name`, schema.VersionTable)
}

func (d *Database) list(ctx context.Context, query string, args ...any) (all []string, err error) {
	rows, err := d.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read ClickHouse's tables: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, fmt.Errorf("read ClickHouse's tables: %w", err)
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// column is a column that stores data, rather than computing it.
type column struct{ name, kind string }

// isState tells of a state of an aggregate function, which blocks of a client cannot hold: it travels as text.
func (c column) isState() bool { return strings.HasPrefix(c.kind, "AggregateFunction(") }

func (d *Database) columns(ctx context.Context, table string) (all []column, err error) {
	rows, err := d.db.QueryContext(ctx, `SELECT name, type FROM system.columns WHERE database = currentDatabase()
		AND table = $1 AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') ORDER BY position`, table)
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	defer rows.Close()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.kind); err != nil {
			return nil, fmt.Errorf("read the columns of %s: %w", table, err)
		}
		all = append(all, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("read the columns of %s: there is no such table", table)
	}
	return all, nil
}

func hasState(columns []column) bool { return slices.ContainsFunc(columns, column.isState) }

// dial connects for blocks.
func (d *Database) dial(ctx context.Context) (*ch.Client, error) {
	o := ch.Options{
		Address: d.opts.Addr[0], Database: d.opts.Auth.Database, User: d.opts.Auth.Username,
		Password: d.opts.Auth.Password, TLS: d.opts.TLS, ClientName: "millrace-backup",
		DialTimeout: connectWait, HandshakeTimeout: connectWait, ReadTimeout: blockWait,
	}
	client, err := ch.Dial(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("connect to clickhouse at %s: %w", o.Address, err)
	}
	return client, nil
}

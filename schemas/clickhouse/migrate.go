// Package clickhouse holds the contracts of what rests in ClickHouse: numbered
// migrations and the columns of each table.
package clickhouse

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/millrace-io/millrace/schemas/migrations"
)

//go:embed migrations/*.sql
var files embed.FS

// ErrNewerSchema is the error of a database that a newer release has migrated.
var ErrNewerSchema = migrations.ErrNewerSchema

// ErrOlderSchema is the error of a database that lacks migrations of this release.
var ErrOlderSchema = errors.New(`the clickhouse schema is older than this release: run "millrace migrate"`)

// Migrate brings the database of a single server up to date.
func Migrate(ctx context.Context, db *sql.DB) error { return Topology{}.Migrate(ctx, db) }

// Migrate brings the database up to date. It is idempotent, and goes on where one that was killed has stopped. Several
// processes may run it at the same time: each makes all that is missing, in order.
func (t Topology) Migrate(ctx context.Context, db *sql.DB) error {
	p, err := t.provider(db)
	if err != nil {
		return err
	}
	if err := migrations.RefuseNewer(ctx, "clickhouse", p); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate clickhouse: %w", err)
	}
	return nil
}

// Check returns ErrNewerSchema for a schema that this release does not know,
// and ErrOlderSchema for one that lacks migrations.
func (t Topology) Check(ctx context.Context, db *sql.DB) error {
	p, err := t.provider(db)
	if err != nil {
		return err
	}
	return migrations.Check(ctx, "clickhouse", p, ErrOlderSchema)
}

func (t Topology) provider(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	if dir, err = t.render(dir); err != nil {
		return nil, err
	}
	store, err := database.NewStoreFromQuerier(goose.DefaultTablename, versions{t})
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	// Migrations of different parts land in the order in which they are ready.
	p, err := goose.NewProvider("", db, dir, goose.WithStore(store), goose.WithAllowOutofOrder(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

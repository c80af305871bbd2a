// Package postgres holds the contract of what rests in Postgres: numbered
// migrations of the schema millrace.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/millrace-io/millrace/schemas/migrations"
)

//go:embed migrations/*.sql
var files embed.FS

// Schema is the schema of Postgres in which every table stands.
const Schema = "millrace"

// ErrNewerSchema is the error of a database that a newer release has migrated.
var ErrNewerSchema = migrations.ErrNewerSchema

// ErrOlderSchema is the error of a database that lacks migrations of this release.
var ErrOlderSchema = errors.New(`the postgres schema is older than this release: run "millrace migrate"`)

// makeSchema has one process look at a time. CREATE SCHEMA IF NOT EXISTS alone is
// refused when another process has made it a moment ago: a session remembers that
// there was none.
const makeSchema = `DO $$ BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('make the schema ` + Schema + `', 0));
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '` + Schema + `') THEN
		CREATE SCHEMA ` + Schema + `;
	END IF;
END $$`

// oldest is the first release of Postgres on which the tests pass, as server_version_num has it.
const oldest = 15_00_00

// checkServer returns an error for a server that is too old.
func checkServer(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return fmt.Errorf("read the version of postgres: %w", err)
	}
	return checkVersion(version)
}

func checkVersion(version int) error {
	if version < oldest {
		return fmt.Errorf("the server is Postgres %d: Millrace needs %d or newer", version/1_00_00, oldest/1_00_00)
	}
	return nil
}

// Migrate brings the database up to date. It is idempotent, and several processes may run it at the same time: one of
// them works, the others wait. It returns an error for a server older than Postgres 15.
func Migrate(ctx context.Context, db *sql.DB) error {
	if err := checkServer(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, makeSchema); err != nil {
		return fmt.Errorf("make the postgres schema %s: %w", Schema, err)
	}
	p, err := provider(db)
	if err != nil {
		return err
	}
	if err := migrations.RefuseNewer(ctx, "postgres", p); err != nil {
		return err
	}
	// Parts that run already work on tables that a migration locks one by one. Postgres
	// cuts one of two short that wait for each other.
	const tries = 10
	for attempt := 1; ; attempt++ {
		_, err := p.Up(ctx)
		if err == nil {
			return nil
		}
		var cut *pgconn.PgError
		if attempt == tries || !errors.As(err, &cut) || cut.Code != deadlock {
			return fmt.Errorf("migrate postgres: %w", err)
		}
	}
}

// Check changes nothing. It returns ErrOlderSchema for a database that lacks migrations, and
// ErrNewerSchema for one that a newer release has migrated.
func Check(ctx context.Context, db *sql.DB) error {
	var made bool
	if err := db.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", versionTable).Scan(&made); err != nil {
		return fmt.Errorf("read postgres schema version: %w", err)
	}
	if !made {
		return ErrOlderSchema
	}
	p, err := provider(db)
	if err != nil {
		return err
	}
	return migrations.Check(ctx, "postgres", p, ErrOlderSchema)
}

// VersionTable is the table of the migrations that have been applied, in the schema.
const VersionTable = "schema_version"

const versionTable = Schema + "." + VersionTable

// deadlock is the code of Postgres for a transaction that was cut short.
const deadlock = "40P01"

func provider(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, fmt.Errorf("lock migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir,
		goose.WithTableName(versionTable), goose.WithSessionLocker(locker),
		goose.WithAllowOutofOrder(true)) // each part of Millrace has a range of numbers of its own
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

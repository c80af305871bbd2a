package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/klauspost/compress/zstd"

	schema "github.com/millrace-io/millrace/schemas/postgres"
)

// restoring is the comment of the schema while a restore has not ended.
const restoring = "a restore has not ended"

// Check returns an error for a database that has the schema, unless a restore to it has not ended.
func Check(ctx context.Context, dsn string) error {
	return with(dsn, func(db *sql.DB, name string) error {
		_, err := left(ctx, db, name)
		return err
	})
}

// left tells whether the database has what a restore has left that did not end.
func left(ctx context.Context, db *sql.DB, name string) (is bool, err error) {
	var there bool
	if err := db.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NOT NULL,
		coalesce(obj_description(to_regnamespace($1), 'pg_namespace'), '') = $2`, schema.Schema, restoring).
		Scan(&there, &is); err != nil {
		return false, fmt.Errorf("look into Postgres: %w", err)
	}
	if there && !is {
		return false, fmt.Errorf("the database %s of Postgres has a schema %s: restore into a database without one", name,
			schema.Schema)
	}
	return is, nil
}

// Prepare makes the tables in a database that has none of them. What a restore has left there that did not end, it
// removes. Until Release, the schema is marked.
func Prepare(ctx context.Context, dsn string) error {
	return with(dsn, func(db *sql.DB, name string) error {
		again, err := left(ctx, db, name)
		if err != nil {
			return err
		}
		statement := "CREATE SCHEMA " + schema.Schema + "; COMMENT ON SCHEMA " + schema.Schema + " IS '" + restoring + "'"
		if again {
			statement = "DROP SCHEMA " + schema.Schema + " CASCADE; " + statement
		}
		if _, err := db.ExecContext(ctx, statement); err != nil { // one transaction
			return fmt.Errorf("make the schema %s of Postgres: %w", schema.Schema, err)
		}
		return schema.Migrate(ctx, db)
	})
}

// Release removes the mark of a schema whose restore has ended.
func Release(ctx context.Context, dsn string) error {
	return with(dsn, func(db *sql.DB, _ string) error {
		if _, err := db.ExecContext(ctx, "COMMENT ON SCHEMA "+schema.Schema+" IS NULL"); err != nil {
			return fmt.Errorf("remove the mark of the restore from Postgres: %w", err)
		}
		return nil
	})
}

// with does something with a database.
func with(dsn string, do func(db *sql.DB, name string) error) error {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("MILLRACE_POSTGRES_DSN: %w", err)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectWait
	}
	// Several statements at once, without arguments, go by the simple protocol alone.
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	return do(db, cfg.Database)
}

// Restore reads all tables, in one transaction. open gives the file of a table. It returns the names of tables that
// no migration makes, which it leaves out: they are somebody else's.
func Restore(
	ctx context.Context, dsn string, i Info, open func(name string, read func(io.Reader) error) error,
) (left []string, err error) {
	conn, err := connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return left, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		made, err := listTables(ctx, tx)
		if err != nil {
			return err
		}
		i.Tables = slices.DeleteFunc(slices.Clone(i.Tables), func(t Table) bool {
			ours := slices.ContainsFunc(made, func(m Table) bool { return m.Name == t.Name })
			if !ours {
				left = append(left, t.Name)
			}
			return !ours
		})
		if err := empty(ctx, tx, i.Tables); err != nil {
			return err
		}
		for _, t := range i.Tables {
			if err := open(t.File, func(from io.Reader) error { return fill(ctx, conn, t, from) }); err != nil {
				return err
			}
		}
		return settle(ctx, tx, i)
	})
}

// empty removes what the migrations have put into the tables, and has no trigger answer to what comes: its effects
// are in the set.
func empty(ctx context.Context, tx pgx.Tx, tables []Table) error {
	var names []string
	for _, t := range tables {
		name := t.qualified()
		if _, err := tx.Exec(ctx, "ALTER TABLE "+name+" DISABLE TRIGGER USER"); err != nil {
			return fmt.Errorf("restore table %s: %w", t.Name, err)
		}
		names = append(names, name)
	}
	if _, err := tx.Exec(ctx, "TRUNCATE "+strings.Join(names, ", ")); err != nil {
		return fmt.Errorf("restore Postgres: %w", err)
	}
	return nil
}

func (t *Table) qualified() string { return pgx.Identifier{schema.Schema, t.Name}.Sanitize() }

func fill(ctx context.Context, conn *pgx.Conn, t Table, from io.Reader) error {
	plain, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer plain.Close()
	var columns []string
	for _, c := range t.Columns {
		columns = append(columns, pgx.Identifier{c}.Sanitize())
	}
	tag, err := conn.PgConn().CopyFrom(ctx, plain, "COPY "+t.qualified()+" ("+strings.Join(columns, ", ")+") FROM STDIN")
	if err != nil {
		return fmt.Errorf("restore table %s: %w", t.Name, err)
	}
	if tag.RowsAffected() != t.Rows {
		return fmt.Errorf("restore table %s: %s has %d rows, and the manifest says %d", t.Name, t.File, tag.RowsAffected(),
			t.Rows)
	}
	return nil
}

// settle puts triggers and sequences back.
func settle(ctx context.Context, tx pgx.Tx, i Info) error {
	var errs []error
	for _, t := range i.Tables {
		_, err := tx.Exec(ctx, "ALTER TABLE "+t.qualified()+" ENABLE TRIGGER USER")
		errs = append(errs, err)
	}
	for name, last := range i.Sequences {
		_, err := tx.Exec(ctx, "SELECT setval(to_regclass($1), $2)", pgx.Identifier{schema.Schema, name}.Sanitize(), last)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore Postgres: %w", err)
	}
	return nil
}

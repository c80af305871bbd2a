package postgres_test

import (
	"database/sql"
	"slices"
	"testing"

	embedded "github.com/millrace-io/millrace/internal/embedded/postgres"
	"github.com/millrace-io/millrace/schemas/postgres"
)

// readable are the tables that people may read.
var readable = []string{
	"batch", "claim", "delayed", "executions", "failed", "file", "history", "job_ledger", "job_schedule", "jobs",
	"pipeline_tracking",
	"processed_events", "ready", "source", "stage",
}

// TestEverythingReadableIsDescribed: whatever the login analyst can read, table
// or column, says what it is. A column that is added needs a comment.
func TestEverythingReadableIsDescribed(t *testing.T) {
	db := migrated(t)
	if names := column(t, db, `SELECT relname FROM pg_class WHERE relnamespace = 'millrace'::regnamespace
		AND relkind IN ('r', 'p', 'v', 'm') AND has_table_privilege('millrace_reader', oid, 'SELECT')
		ORDER BY 1`); !slices.Equal(names, readable) {
		t.Errorf("people may read %v, want %v", names, readable)
	}
	if bare := column(t, db, `SELECT c.relname || '.' || a.attname FROM pg_class AS c
		JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0
		AND NOT a.attisdropped
			AND has_column_privilege('millrace_reader', c.oid, a.attnum, 'SELECT')
			AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid, 'pg_class') IS NULL)
			ORDER BY 1`); len(bare) != 0 {
		t.Errorf("without a comment that says what they are: %v", bare)
	}
	if more := column(t, db, `SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'millrace'::regnamespace
		AND c.relkind IN ('r', 'p', 'v', 'm')
		AND has_table_privilege('millrace_reader', c.oid,
		'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')`); len(more) != 0 {
		t.Errorf("people may change %v", more)
	}
}

// TestGrantsFollowComments: a table that loses its comment is not read any more.
func TestGrantsFollowComments(t *testing.T) {
	db := migrated(t)
	if _, err := db.ExecContext(t.Context(), "COMMENT ON TABLE millrace.file IS NULL"); err != nil {
		t.Fatal(err)
	}
	if granted, err := postgres.GrantReading(t.Context(), db); !granted || err != nil {
		t.Fatal(granted, err)
	}
	if got := column(t, db,
		"SELECT has_table_privilege('millrace_reader', 'millrace.file', 'SELECT')::text"); got[0] != "false" {
		t.Error("a table without a comment can be read")
	}
}

// TestOneNameOfReaders: the embedded server makes the role that the schema
// grants to.
func TestOneNameOfReaders(t *testing.T) {
	if embedded.Readers != postgres.Readers {
		t.Errorf("%s is not %s", embedded.Readers, postgres.Readers)
	}
}

func migrated(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", engine.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if granted, err := postgres.GrantReading(t.Context(), db); !granted || err != nil {
		t.Fatal(granted, err)
	}
	return db
}

func column(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		all = append(all, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

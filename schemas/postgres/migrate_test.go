package postgres_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/schemas/postgres"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// empty makes a database without the schema.
func empty(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", engine.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(t.Context(), "DROP SCHEMA millrace CASCADE"); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestTogether lets several processes migrate the same new database at once.
func TestTogether(t *testing.T) {
	db := empty(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := postgres.Migrate(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	names, err := fs.Glob(postgres.Files, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var applied int
	err = db.QueryRowContext(t.Context(),
		"SELECT count(*) FROM millrace.schema_version WHERE version_id > 0 AND is_applied").Scan(&applied)
	if err != nil || applied != len(names) {
		t.Errorf("%d migrations are applied of %d, %v", applied, len(names), err)
	}
}

// TestCheck: an empty database and one without the last migration are older, and looking
// changes nothing.
func TestCheck(t *testing.T) {
	db := empty(t)
	older := func(what string) {
		t.Helper()
		if err := postgres.Check(t.Context(), db); !errors.Is(err, postgres.ErrOlderSchema) {
			t.Errorf("%s: %v", what, err)
		}
	}
	older("an empty database")
	var made bool
	err := db.QueryRowContext(t.Context(), "SELECT to_regnamespace('millrace') IS NOT NULL").Scan(&made)
	if err != nil || made {
		t.Errorf("looking has made the schema: %v", err)
	}
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Check(t.Context(), db); err != nil {
		t.Errorf("a migrated database: %v", err)
	}
	if _, err := db.ExecContext(t.Context(), "DELETE FROM millrace.schema_version WHERE version_id = "+
		"(SELECT max(version_id) FROM millrace.schema_version)"); err != nil {
		t.Fatal(err)
	}
	older("without the last migration")
}

// TestSchemaTogether lets many processes make the schema at once, again and again.
func TestSchemaTogether(t *testing.T) {
	db := empty(t)
	for range 50 {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if _, err := db.ExecContext(t.Context(), postgres.MakeSchema); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := db.ExecContext(t.Context(), "DROP SCHEMA millrace"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeadlock cuts migrations short, as Postgres does with one of two transactions that
// wait for each other.
func TestDeadlock(t *testing.T) {
	db := empty(t)
	for _, sql := range []string{
		"CREATE SCHEMA millrace",
		"CREATE SEQUENCE public.tries",
		`CREATE FUNCTION public.cut() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('public.tries') IN (2, 5) THEN
				RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected';
			END IF;
			RETURN NEW;
		END $$`,
	} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p, err := postgres.Provider(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.GetDBVersion(t.Context()); err != nil { // makes the table of versions
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TRIGGER cut BEFORE INSERT ON millrace.schema_version "+
		"FOR EACH ROW EXECUTE FUNCTION public.cut()"); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	var tries int
	err = db.QueryRowContext(t.Context(), "SELECT last_value FROM public.tries").Scan(&tries)
	if err != nil || tries < 5 {
		t.Errorf("%d versions were written, so that nothing was cut short, %v", tries, err)
	}
}

// TestDown goes all the way down and up again.
func TestDown(t *testing.T) {
	db := empty(t)
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	p, err := postgres.Provider(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var left int
	err = db.QueryRowContext(t.Context(),
		"SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "+
			"WHERE n.nspname = 'millrace' AND c.relkind = 'r' AND c.relname <> 'schema_version'").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d tables are left, %v", left, err)
	}
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// TestFilenames: files that were registered by the name that they have on disk get
// their filename, but for one whose filename is another file's.
func TestFilenames(t *testing.T) {
	db := empty(t)
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	p, err := postgres.Provider(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.event-ingest.txt", "b", "b.event-ingest.txt", ".event-ingest.txt"} {
		if _, err := db.ExecContext(t.Context(), "WITH f AS (INSERT INTO millrace.file (filename) VALUES ($1)) "+
			"INSERT INTO millrace.pipeline_tracking (filename, shard) VALUES ($1, 0)", name); err != nil {
			t.Fatal(err)
		}
	}
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"file", "pipeline_tracking"} {
		var names string
		err := db.QueryRowContext(t.Context(),
			"SELECT string_agg(filename, ' ' ORDER BY filename) FROM millrace."+table).Scan(&names)
		if want := ".event-ingest.txt a b b.event-ingest.txt"; err != nil || names != want {
			t.Errorf("%s has %q, %v; want %q", table, names, err, want)
		}
	}
}

// TestNewer refuses a schema of a newer release, in one clear line.
func TestNewer(t *testing.T) {
	db := empty(t)
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(),
		"INSERT INTO millrace.schema_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	err := postgres.Migrate(t.Context(), db)
	if !errors.Is(err, postgres.ErrNewerSchema) || !strings.Contains(err.Error(), "version 99999") ||
		strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// TestOldServer: what migrates names the oldest server that there may be.
func TestOldServer(t *testing.T) {
	for version, want := range map[int]string{
		9_06_24: "the server is Postgres 9: Millrace needs 15 or newer", 14_00_20: "the server is Postgres 14: Millrace needs 15 or newer",
		15_00_00: "", 17_00_10: "",
	} {
		if err := postgres.CheckVersion(version); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("version %d: %v, want %q", version, err, want)
		}
	}
}

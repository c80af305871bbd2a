package postgres

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/embedded/child"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// loginAs is the URL of a server's database for another login.
func loginAs(t *testing.T, s *Server, user, password string) string {
	t.Helper()
	u, err := url.Parse(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// refused runs statements that must fail.
func refused(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("it is done: %s", sql)
		} else {
			t.Logf("%s: %v", sql, err)
		}
	}
}

// Invariant 5: nobody is a superuser, and the owner of the cluster cannot log in.
func TestNoSuperuserLogsIn(t *testing.T) {
	s := newServer(t, Config{Dir: t.TempDir() + "/postgres"})
	defer run(t, s)()
	if got := query[string](t, s.DSN(), "SELECT string_agg(rolname, ',' ORDER BY rolname) FROM pg_roles WHERE "+
		"rolsuper OR rolcreaterole OR rolbypassrls OR rolreplication"); got != "postgres" {
		t.Errorf("with rights beyond their own: %s", got)
	}
	for _, password := range []string{"", "postgres", readFile(t, s.config.passwordFile())} {
		if _, err := pgx.Connect(t.Context(), loginAs(t, s, superuser, password)); err == nil ||
			!strings.Contains(err.Error(), "pg_hba.conf rejects") {
			t.Errorf("the owner of the cluster: %v", err)
		}
	}
	refused(t, s.DSN(),
		"COPY (SELECT 1) TO PROGRAM 'true'", "SELECT pg_read_file('/etc/hostname')",
		"SELECT lo_import('/etc/hostname')",
		"CREATE ROLE another SUPERUSER", "ALTER ROLE millrace SUPERUSER", "SET ROLE postgres",
		"CREATE DATABASE another",
		"CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'libc.so.6', 'abs'", "ALTER SYSTEM SET archive_command = 'true'",
	)
}

// Invariant 6: the analyst reads what is granted to readers, and that is all.
func TestAnalystOnlyReads(t *testing.T) {
	s := newServer(t, Config{Dir: t.TempDir() + "/postgres"})
	defer run(t, s)()
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `CREATE SCHEMA millrace; GRANT USAGE ON SCHEMA millrace TO millrace_reader;
		CREATE TABLE millrace.open (a int); INSERT INTO millrace.open
		VALUES (7); GRANT SELECT ON millrace.open TO millrace_reader;
		CREATE TABLE millrace.closed (a int); SELECT pg_advisory_lock(1), lo_from_bytea(0, 'x')`); err != nil {
		t.Fatal(err) // Millrace's own role may do all of that
	}
	dsn := loginAs(t, s, Analyst, readFile(t, s.config.analystFile()))
	if got := query[int](t, dsn, "SELECT a FROM open"); got != 7 {
		t.Errorf("the analyst reads %d", got)
	}
	refused(t, dsn,
		"SELECT * FROM millrace.closed", "INSERT INTO open VALUES (1)",
		"SET default_transaction_read_only = off; INSERT INTO open VALUES (1)",
		"CREATE TABLE millrace.mine (a int)", "CREATE TABLE public.mine (a int)", "CREATE TEMP TABLE mine (a int)",
		"SET default_transaction_read_only = off; SELECT lo_from_bytea(0, 'x')", "SELECT pg_advisory_lock(2)",
		"SELECT pg_try_advisory_xact_lock(2)", "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000))",
		"SELECT pg_current_xact_id()", "SELECT txid_current()", "SELECT pg_export_snapshot()",
		"SELECT pg_notify('x', 'y')", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
		"SELECT pg_cancel_backend(pid) FROM pg_stat_activity", "SET temp_file_limit = -1",
		"ALTER ROLE analyst SET temp_file_limit = -1", "SET session_replication_role = replica",
		"SELECT dblink_connect('x')", "BEGIN; PREPARE TRANSACTION 'x'", "SELECT set_config('temp_file_limit', '-1', false)",
		"ROLLBACK; ALTER ROLE millrace CONNECTION LIMIT 0", "CREATE EVENT TRIGGER x ON login EXECUTE FUNCTION version()",
		"SELECT pg_read_file('/etc/hostname')", "SELECT lo_import('/etc/hostname')", "COPY open TO PROGRAM 'true'",
		"COPY open TO '/tmp/x'",
		"CREATE EXTENSION dblink", "SELECT rolpassword FROM pg_authid", "SET ROLE millrace",
	)
	for _, database := range []string{"postgres", "template1"} { // where it could fill the disk
		if conn, err := pgx.Connect(t.Context(), strings.Replace(dsn, "/millrace", "/"+database, 1)); err == nil {
			t.Errorf("the analyst enters the database %s", database)
			_ = conn.Close(t.Context())
		}
	}
	if got := query[string](t, dsn, "SHOW statement_timeout"); got != "1min" {
		t.Errorf("its statements may take %s", got)
	}
}

// TestAnalystChangesItself: what an analyst changes about the login does not outlive the next
// two starts: the first notices it.
func TestAnalystChangesItself(t *testing.T) {
	slowtest.Mark(t)
	dir := t.TempDir() + "/postgres"
	s := newServer(t, Config{Dir: dir})
	stop := run(t, s)
	password := readFile(t, s.config.analystFile())
	conn, err := pgx.Connect(t.Context(), loginAs(t, s, Analyst, password))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "ALTER ROLE analyst PASSWORD 'mine'; "+
		"ALTER ROLE analyst SET statement_timeout = 0; ALTER ROLE analyst IN DATABASE millrace SET work_mem = '1TB'"); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	unnoticed := func() bool {
		_, err := os.Stat(s.config.rolesFile())
		return err == nil
	}
	if unnoticed() { // by the first start, whose check may come after the change
		s = newServer(t, Config{Dir: dir})
		stop = run(t, s)
		for deadline := time.Now().Add(time.Minute); unnoticed(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nobody notices it")
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	s = newServer(t, Config{Dir: dir})
	defer run(t, s)()
	if got := query[string](t, loginAs(t, s, Analyst, password), "SELECT current_setting('statement_timeout') || ' ' || "+
		"current_setting('work_mem')"); got != "1min 4MB" {
		t.Errorf("its statements may take: %s", got)
	}
}

// Invariant 5, in a folder of an earlier release, whose own role was the owner of
// the cluster.
func TestOwnerOfTheClusterIsRenamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "postgres")
	s := newServer(t, Config{Dir: dir})
	if err := makeDir(dir); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.identity, err = s.identify(t.Context(), &s.config); err != nil {
		t.Fatal(err)
	}
	if err := s.write(s.config.passwordFile(), "kept\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := child.Exec(t.Context(), child.Config{
		Name: "initdb", Path: s.config.program("initdb"), Env: environment(), Dir: dir, Attr: s.identity.attr,
		Args: []string{
			"-D", s.config.data(), "--username=millrace", "--pwfile=" + s.config.passwordFile(),
			"--auth=scram-sha-256", "--no-sync",
		},
	}); err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]string{{"postgres", "CREATE DATABASE millrace;\n\n"}, {"millrace", oldSchema}} {
		if err := s.single(t.Context(), step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // and once more, with nothing to do
		s = newServer(t, Config{Dir: dir})
		stop := run(t, s)
		if !strings.Contains(s.DSN(), "millrace:kept@") {
			t.Error("the password is another one")
		}
		if got := query[string](t, s.DSN(),
			"SELECT string_agg(rolname, ',') FROM pg_roles WHERE rolsuper"); got != "postgres" {
			t.Errorf("superusers: %s", got)
		}
		conn, err := pgx.Connect(t.Context(), s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `INSERT INTO millrace.kept (mood) VALUES ('good'); COMMENT ON TYPE millrace.mood IS 'how it feels';
			ALTER SEQUENCE millrace.loose RESTART; DROP FUNCTION IF EXISTS millrace.one();
			CREATE OR REPLACE VIEW public.seen AS SELECT * FROM millrace.kept`); err != nil {
			t.Error("Millrace's own role does not own what it did:", err)
		}
		_ = conn.Close(t.Context())
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

const oldSchema = `CREATE SCHEMA millrace;

CREATE TYPE millrace.mood AS ENUM ('good');

CREATE TABLE millrace.kept (id bigint GENERATED ALWAYS AS IDENTITY, serial serial, mood millrace.mood);

CREATE SEQUENCE millrace.loose;

CREATE VIEW public.seen AS SELECT * FROM millrace.kept;

CREATE FUNCTION millrace.one() RETURNS int LANGUAGE sql AS 'SELECT 1';

`

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

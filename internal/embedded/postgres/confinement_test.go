package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// mustConfine skips where the kernel cannot confine; never with CI=true.
func mustConfine(t *testing.T, s *Server) {
	t.Helper()
	report := s.Confinement()
	switch {
	case report == nil:
		t.Fatal("nothing is known of its confinement")
	case report.Whole():
	case os.Getenv("CI") == "true":
		t.Fatal(report)
	default:
		t.Skip(report)
	}
}

// Invariant 7: what a superuser of Postgres can do, the confinement alone
// refuses. That superuser is made for this test.
func TestConfinementAlone(t *testing.T) {
	for _, confined := range []bool{true, false} {
		t.Run(fmt.Sprint("confined ", confined), func(t *testing.T) {
			dir, outside := filepath.Join(t.TempDir(), "postgres"), t.TempDir()
			if err := os.Chmod(outside, 0o777); err != nil {
				t.Fatal(err)
			}
			stop := run(t, newServer(t, Config{Dir: dir}))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			s := newServer(t, Config{Dir: dir})
			s.config.Confine = confined
			var err error
			if s.identity, err = s.identify(t.Context(), &s.config); err != nil {
				t.Fatal(err)
			}
			if err := s.single(t.Context(), superuser, "ALTER ROLE millrace SUPERUSER;\n\n"); err != nil {
				t.Fatal(err)
			}
			defer run(t, s)()
			if confined {
				mustConfine(t, s)
			}
			attack(t, s, outside, confined)
		})
	}
}

// attack tries what leaves the server: without confinement, to see that it
// would have worked.
func attack(t *testing.T, s *Server, outside string, confined bool) {
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		"COPY (SELECT 1) TO PROGRAM 'cat > " + outside + "/program'",
		"COPY (SELECT 1) TO '" + outside + "/copied'",
		"SELECT pg_read_file('/etc/passwd')", "SELECT pg_read_binary_file('/proc/self/environ')",
		"SELECT pg_read_binary_file('/proc/1/cmdline')",
		"SELECT pg_read_binary_file('/proc/" + strconv.Itoa(os.Getpid()) + "/environ')",
		"SELECT pg_read_file('" + s.config.passwordFile() + "')",
		"SELECT pg_read_file('" + s.config.analystFile() + "')",
		"SELECT pg_ls_dir('/')", "SELECT pg_ls_dir('" + outside + "')",
		"SELECT lo_import('/etc/passwd')", "SELECT lo_from_bytea(4242, 'x'); SELECT lo_export(4242, '" + outside +
			"/exported')",
		"CREATE TEMP TABLE stolen (line text); COPY stolen FROM '/etc/passwd'",
	} {
		_, err := conn.Exec(t.Context(), sql)
		if confined && err == nil {
			t.Errorf("it is done: %s", sql)
		}
		if !confined && err != nil && !strings.Contains(sql, "/environ") {
			t.Errorf("an attack that proves nothing: %s: %v", sql, err)
		}
		t.Logf("%s: %v", sql, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || confined && len(entries) > 0 {
		t.Errorf("outside of its folder: %v, %v", entries, err)
	}
}

// Invariant 7: no secret of this process is in the environment of the server.
func TestEnvironmentHasNoSecret(t *testing.T) {
	t.Setenv("AUTH_JWT_SECRET", "not-for-children")
	t.Setenv("MILLRACE_CRAWLER_DSN", "postgres://crawler:not-for-children@db")
	s := newServer(t, Config{Dir: t.TempDir() + "/postgres"})
	defer run(t, s)()
	pid, _, _ := strings.Cut(readFile(t, filepath.Join(s.config.data(), "postmaster.pid")), "\n")
	text, err := os.ReadFile("/proc/" + pid + "/environ")
	if os.IsNotExist(err) {
		t.Skip("this system has no /proc")
	}
	if err != nil || strings.Contains(string(text), "not-for-children") || strings.Contains(string(text), "AUTH_") {
		t.Errorf("%q, %v", text, err)
	}
}

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestConfinement: no judge stands before the login default, and yet what it
// asks for reaches nothing but the engine's own files.
func TestConfinement(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	const secret = "a-secret-of-at-least-thirty-two-bytes"
	s := up(t, "AUTH_JWT_SECRET="+secret)
	resp, err := http.Get(s.url("/health"))
	status, _, health := s.read(resp, err)
	if !strings.Contains(string(health), `"clickhouse":"landlock `) ||
		!strings.Contains(string(health), `"postgres":"landlock `) || strings.Contains(string(health), "missing") {
		if os.Getenv("CI") == "true" {
			t.Fatalf("status %d: %s", status, health)
		}
		t.Skipf("the kernel cannot confine: %s", health)
	}
	t.Run("ClickHouse", func(t *testing.T) { confinedClickHouse(t, s) })
	t.Run("allocator", func(t *testing.T) { freedMemory(t, s) })
	t.Run("environments", func(t *testing.T) { noSecrets(t, s, secret) })
	t.Run("folders", func(t *testing.T) { privateFolders(t, s) })
	t.Run("logins", func(t *testing.T) { databaseLogins(t, s) })
}

// confinedClickHouse tries what leaves the engine, and what of it is there to see
// that the statements themselves are right.
func confinedClickHouse(t *testing.T, s *server) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "passwd"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	self := fmt.Sprint(os.Getpid())
	for _, sql := range []string{
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT file('/etc/passwd')",
		"SELECT arrayMap(file, ['/etc/passwd'])",
		"SELECT a FROM values('x UInt8, a String ALIAS file(''/etc/passwd'')', (1))",
		"SHOW TABLES WHERE toUInt64(file('/etc/hostname')) = 0",
		"SELECT file('/proc/self/environ')", "SELECT file('/proc/1/environ')",
		"SELECT file('/proc/" + self + "/environ')", "SELECT file('/proc/self/maps')",
		"SELECT file('" + s.data + "/postgres/password')", "SELECT file('" + s.data + "/clickhouse-password')",
		"SELECT file('" + outside + "/passwd')",
		"INSERT INTO FUNCTION file('" + outside + "/x', 'CSV', 'a UInt8') VALUES (1)",
		"INSERT INTO FUNCTION file('" + s.data + "/x', 'CSV', 'a UInt8') VALUES (1)",
		"SELECT 1 INTO OUTFILE '" + outside + "/y'",
		"SELECT * FROM url('http://" + s.ports.HTTP + "/health', 'LineAsString') SETTINGS http_max_tries = 1",
		"SELECT * FROM remote('" + s.ports.Postgres + "', system.one, 'default', '') SETTINGS " +
			"connect_timeout_with_failover_ms = 100",
		"SELECT * FROM mysql('" + s.ports.Postgres + "', 'a', 'b', 'c', 'd') SETTINGS mysql_max_tries = 1",
		"SELECT * FROM postgresql('" + s.ports.Postgres + "', 'a', 'b', 'c', 'd')",
		"SELECT * FROM s3('http://" + s.ports.HTTP + "/a/b', 'LineAsString') SETTINGS s3_max_single_read_retries = " +
			"1, http_max_tries = 1, s3_retry_attempts = 0",
		"SELECT * FROM executable('id', 'CSV', 'a String')",
		"SELECT * FROM executable('../../../bin/id', 'CSV', 'a String')",
	} {
		if status, answer := s.asDefault(sql); status == http.StatusOK {
			t.Errorf("it is done: %s: %.200s", sql, answer)
		}
	}
	// A folder that can't be listed is one without files.
	for _, folder := range []string{"/etc", outside, s.data} {
		if _, answer := s.asDefault("SELECT _path FROM file('" + folder + "/*', 'One')"); answer != "" &&
			!strings.Contains(answer, "Exception") {
			t.Errorf("%s is listed: %.200s", folder, answer)
		}
	}
	for name, source := range map[string]string{
		"of_file":    "FILE(PATH '/etc/passwd' FORMAT 'LineAsString')",
		"of_http":    "HTTP(URL 'http://" + s.ports.HTTP + "/health' FORMAT 'LineAsString')",
		"of_program": "EXECUTABLE(COMMAND 'id' FORMAT 'LineAsString')",
	} {
		_, _ = s.asDefault("CREATE DICTIONARY " + name + " (line String, n UInt8 DEFAULT 0) PRIMARY KEY line SOURCE(" +
			source + ") LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0)")
		if status, answer := s.asDefault("SELECT * FROM " + name); status == http.StatusOK {
			t.Errorf("a dictionary %s: %.200s", name, answer)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside of its folder: %v, %v", entries, err)
	}
	// What the login may do, it can: files of its own folder, and rows through
	// files in memory.
	own := filepath.Join(s.data, "clickhouse", "tmp", "own.csv")
	for _, sql := range []string{
		"CREATE TABLE mine (a UInt64) ENGINE = MergeTree ORDER BY a", "INSERT INTO mine FORMAT CSV\n1\n2\n",
		"INSERT INTO FUNCTION file('" + own + "', 'CSV', 'a UInt8') SELECT 1",
		"SELECT * FROM file('" + own + "', 'CSV', 'a UInt8')",
	} {
		if status, answer := s.asDefault(sql); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", sql, status, answer)
		}
	}
	if got := s.ask("SELECT sum(a) FROM mine"); got != "3" {
		t.Errorf("the rows add up to %s", got)
	}
}

// freedMemory: although the engine's environment is made anew, its allocator learns
// from it when to give memory back.
func freedMemory(t *testing.T, s *server) {
	const sql = `SELECT extract(toString(stats), 'opt\\.dirty_decay_ms: (\\d+)') FROM system.jemalloc_stats`
	if status, got := s.asDefault(sql); status != http.StatusOK || got != "500" {
		t.Errorf("free memory is given back after so many milliseconds: %s (status %d)", got, status)
	}
}

// asDefault runs a statement as the login that is not judged.
func (s *server) asDefault(sql string) (status int, answer string) {
	s.t.Helper()
	password := url.QueryEscape(s.secret("clickhouse-password"))
	resp, err := http.Post("http://"+s.ports.ClickHouseHTTP+"/?user=default&password="+password, "text/plain",
		strings.NewReader(sql))
	status, _, body := s.read(resp, err)
	return status, strings.TrimSpace(string(body))
}

// secret is a password that the server has generated.
func (s *server) secret(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data, path))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// noSecrets: what the children have of their parent's environment, anybody may
// read.
func noSecrets(t *testing.T, s *server, secret string) {
	secrets := []string{secret, s.secret("clickhouse-password"), s.secret("postgres/password"), "AUTH_", "PASSWORD"}
	children := descendants(s.cmd.Process.Pid)
	if len(children) < 2 {
		t.Fatalf("children: %v", children)
	}
	for _, child := range children {
		pid := strconv.Itoa(child.pid)
		environ, err := os.ReadFile("/proc/" + pid + "/environ")
		if errors.Is(err, fs.ErrNotExist) {
			continue // a process of Postgres that has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		arguments, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(environ), secret) || strings.Contains(string(arguments), secret) {
				t.Errorf("process %s knows %s: %q %q", pid, secret, environ, arguments)
			}
		}
	}
}

// privateFolders: whatever is below the data folder is its user's alone.
func privateFolders(t *testing.T, s *server) {
	err := filepath.WalkDir(s.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == s.data {
			return nil // files of engines come and go
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := os.Chmod(filepath.Join(s.data, "projector"), 0o755); err != nil { // as earlier releases had it
		t.Fatal(err)
	}
	s.stop()
	s.restart()
	if info, err := os.Stat(filepath.Join(s.data, "projector")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("after a start: %v, %v", info.Mode(), err)
	}
}

// databaseLogins: who names nobody is an analyst; the analyst of Postgres gets in
// and only reads.
func databaseLogins(t *testing.T, s *server) {
	for _, query := range []string{"", "?user=default", "?user=analyst"} {
		for sql, want := range map[string]int{
			"SELECT count() FROM events":                    http.StatusOK,
			"CREATE TABLE theirs (a UInt8) ENGINE = Memory": 0,
		} {
			resp, err := http.Post("http://"+s.ports.ClickHouseHTTP+"/"+query, "text/plain", strings.NewReader(sql))
			status, _, answer := s.read(resp, err)
			if (status == http.StatusOK) != (want == http.StatusOK) {
				t.Errorf("%q %s: status %d: %s", query, sql, status, answer)
			}
		}
	}
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{s.ports.ClickHouse}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Exec(t.Context(), "CREATE TABLE millrace.theirs (a UInt8) ENGINE = Memory"); err == nil {
		t.Error("a client without a login may write")
	}
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("a client without a login: %v", err)
	}
	if status, answer := s.asDefault("SELECT 1"); status != http.StatusOK {
		t.Errorf("the login default with its password: %s", answer)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("analyst", s.secret("postgres/analyst-password")),
		Host: s.ports.Postgres, Path: "/millrace",
	}
	analyst, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer analyst.Close(t.Context())
	if _, err := analyst.Exec(t.Context(), "SELECT count(*) FROM pipeline_tracking"); err != nil {
		t.Error(err)
	}
	if _, err := analyst.Exec(t.Context(),
		"SET default_transaction_read_only = off; DELETE FROM pipeline_tracking"); err == nil {
		t.Error("the analyst of Postgres may write")
	}
}

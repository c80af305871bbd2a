package postgres

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/embedded/confine"
	"github.com/millrace-io/millrace/internal/embedded/engines"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// The test binary is also the process that is killed with its server.
const envDir = "POSTGRES_TEST_DIR"

func TestMain(m *testing.M) {
	confine.RunStage(os.Args)
	if dir := os.Getenv(envDir); dir != "" {
		serveAndTell(dir)
	}
	os.Exit(m.Run())
}

func serveAndTell(dir string) {
	set, err := engines.Default()
	if err != nil {
		panic(err)
	}
	s, err := New(Config{Engine: set.Postgres, Dir: dir, Listen: "127.0.0.1:0", Confine: true}, slog.Default())
	if err != nil {
		panic(err)
	}
	go func() {
		<-s.Ready()
		fmt.Println(s.DSN())
	}()
	panic(s.Run(context.Background()))
}

func newServer(t *testing.T, config Config) *Server {
	t.Helper()
	set, err := engines.Default()
	if err != nil {
		t.Fatal(err)
	}
	config.Engine, config.Confine = set.Postgres, true
	if config.Listen == "" {
		config.Listen = "127.0.0.1:0"
	}
	s, err := New(config, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a server until it is ready, and returns what stops it, waits, and
// returns its result.
func run(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	var result error
	stopped := false
	stop = func() error {
		cancel()
		if !stopped {
			stopped, result = true, <-done
		}
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func query[T any](t *testing.T, dsn, sql string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func wantFailure(t *testing.T, s *Server, want string) {
	t.Helper()
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Run = %v, want one line with %q", err, want)
	}
}

// Invariants 1 and 3, and a life of stops and starts.
func TestDataOutlivesTheServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "half"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Config{Dir: dir})
	stop := run(t, s)
	for sql, want := range map[string]string{
		"SELECT current_database()":     "millrace",
		"SHOW server_encoding":          "UTF8",
		"SELECT lower('ÄÖ')":            "äö",
		"SHOW timezone":                 "UTC",
		"SHOW fsync":                    "on",
		"SHOW data_checksums":           "on",
		"SELECT 'made' FROM (SELECT 1)": "made",
	} {
		if got := query[string](t, s.DSN(), sql); got != want {
			t.Errorf("%s = %q, want %q", sql, got, want)
		}
	}
	// Its fifth line is the folder of its Unix socket.
	if pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid")); err != nil ||
		strings.Split(string(pid), "\n")[4] != "" {
		t.Errorf("it has a Unix socket: %q, %v", pid, err)
	}
	query[int](t, s.DSN(), "WITH made AS (SELECT 1) SELECT count(*) FROM made")
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), strings.Replace(s.DSN(), "millrace:", "millrace:x", 1)); err == nil {
		t.Error("a wrong password was accepted")
	}
	if info, err := os.Stat(filepath.Join(dir, "password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the password file is %v, %v", info, err)
	}
	if err := stop(); err != nil { // with a client that is still connected
		t.Fatal(err)
	}

	s = newServer(t, Config{Dir: dir})
	stop = run(t, s)
	if got := query[int](t, s.DSN(), "SELECT n FROM kept"); got != 42 {
		t.Errorf("kept = %d", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}

	badFolders(t, dir)
}

// badFolders takes a good folder and spoils it in turn.
func badFolders(t *testing.T, dir string) {
	version := filepath.Join(dir, "data", "PG_VERSION")
	if err := os.WriteFile(version, []byte("16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, newServer(t, Config{Dir: dir}), "holds data of Postgres 16, and this is Postgres 17")
	if err := os.WriteFile(version, []byte("17\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "password")); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, newServer(t, Config{Dir: dir}), "password is missing")
	if err := os.Remove(version); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, newServer(t, Config{Dir: dir}), "holds something other than Postgres data")
}

// Invariant 2: the process around it is killed, and the next starts at once.
func TestKilledProcess(t *testing.T) {
	slowtest.Mark(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dsn, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), strings.TrimSpace(dsn))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	s := newServer(t, Config{Dir: dir})
	stop := run(t, s)
	if got := query[int](t, s.DSN(), "SELECT n FROM kept"); got != 42 {
		t.Errorf("kept = %d", got)
	}
	killedPostmaster(t, s, stop)
	reusedNumber(t, dir)
	twice(t, dir)
}

// Invariant 2: the server itself is killed, with a client at work.
func killedPostmaster(t *testing.T, s *Server, stop func() error) {
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	query[int](t, s.DSN(), "SELECT 1")
	if err := syscall.Kill(postmasterPID(t, s.config.Dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_sleep(1000)"); err == nil {
		t.Error("a backend outlives its server")
	}
	if err := stop(); err != nil && !strings.Contains(err.Error(), "postgres ended by itself: signal: killed") {
		t.Errorf("Run = %v", err)
	}
	again := newServer(t, Config{Dir: s.config.Dir})
	stop = run(t, again)
	if got := query[int](t, again.DSN(), "SELECT n FROM kept"); got != 42 {
		t.Errorf("kept = %d", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Invariant 2: the number of the dead server is that of another process by now,
// also where the dead one was making roles, which writes its number negative.
func reusedNumber(t *testing.T, dir string) {
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	path := filepath.Join(dir, "data", "postmaster.pid")
	number, rest := strconv.Itoa(other.Process.Pid), "\n"+filepath.Join(dir, "data")+"\n"
	for _, text := range []string{number + rest, "-" + number + rest, ""} {
		if err := os.RemoveAll(filepath.Join(dir, "roles")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(t, newServer(t, Config{Dir: dir}))(); err != nil {
			t.Error(err)
		}
	}
}

// A second server on the folder says what is in its way.
func twice(t *testing.T, dir string) {
	s := newServer(t, Config{Dir: dir})
	stop := run(t, s)
	second := newServer(t, Config{Dir: dir})
	second.patience = time.Millisecond
	wantFailure(t, second, fmt.Sprintf("another Postgres, process %d, runs on %s", postmasterPID(t, dir),
		filepath.Join(dir, "data")))
	query[int](t, s.DSN(), "SELECT 1") // and leaves the first alone
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func postmasterPID(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := newServer(t, Config{Dir: t.TempDir(), Listen: taken.Addr().String()})
	if err := s.takePort(); err == nil ||
		!strings.Contains(err.Error(), "is taken by another program: set MILLRACE_POSTGRES_LISTEN") {
		t.Errorf("takePort = %v", err)
	}
}

func TestBadConfigIsOneLine(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Dir: "x"}, "are required"},
		{Config{Dir: "x", Engine: "y", Listen: "here"}, "MILLRACE_POSTGRES_LISTEN=here is not host:port"},
		{Config{Dir: "x", Engine: "y", Listen: "127.0.0.1:pg"}, "no valid port"},
	} {
		if _, err := New(c.config, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("New = %v, want %q", err, c.want)
		}
	}
}

// Clients on this machine reach an address that is not one.
func TestURL(t *testing.T) {
	for listen, want := range map[string]string{
		":5432": "127.0.0.1:5432", "0.0.0.0:5432": "127.0.0.1:5432", "[::]:5432": "[::1]:5432",
		"[::1]:5432": "[::1]:5432", "192.0.2.1:1": "192.0.2.1:1", "localhost:1": "localhost:1",
	} {
		s, err := New(Config{Engine: "engine", Dir: "dir", Listen: listen}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.url("secret", "millrace"); got != "postgres://millrace:secret@"+want+"/millrace?sslmode=disable" {
			t.Errorf("%s: %s", listen, got)
		}
	}
}

// Cancelled while it starts, wherever it is by then.
func TestStopWhileStarting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer(t, Config{Dir: t.TempDir()})
	choose := s.identify
	s.identify = func(ctx context.Context, c *Config) (identity, error) {
		defer cancel()
		return choose(ctx, c)
	}
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.config.Dir, "data")); err == nil {
		t.Error("half a data folder is in place")
	}
}

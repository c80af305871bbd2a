// Package embeddedtest starts the embedded engines for tests of other
// packages: one ClickHouse server a test process, with a database for each
// test, and a NATS server for each test.
package embeddedtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/engines"
	embeddednats "github.com/millrace-io/millrace/internal/embedded/nats"
	schema "github.com/millrace-io/millrace/schemas/clickhouse"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Runner runs the tests of a package, as a testing.M does.
type Runner interface{ Run() int }

// Main runs a package's tests with more than one engine, for TestMain. The last engine starts first. It returns the
// exit code.
func Main(m Runner, engines ...interface{ Main(Runner) int }) int {
	for _, e := range engines {
		m = beside{e.Main, m}
	}
	return m.Run()
}

// beside runs tests with an engine.
type beside struct {
	main  func(Runner) int
	tests Runner
}

func (b beside) Run() int { return b.main(b.tests) }

// ClickHouse is the server of a test process, or the cluster that takes its place: see EnvShards.
type ClickHouse struct {
	server *clickhouse.Server
	shards *Shards // nil: there is one server
	serial atomic.Int64
}

// EnvShards is how many shards the tests of a package run over. They run on one server when it is not set.
const EnvShards = "MILLRACE_TEST_SHARDS"

// Main runs a package's tests with a ClickHouse server, for TestMain:
//
//	var engine embeddedtest.ClickHouse
//
//	func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }
func (c *ClickHouse) Main(m Runner) int {
	if code, ok := Shard(); ok {
		return code
	}
	dir, err := os.MkdirTemp("", "millrace-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return runWith(m, "clickhouse", func() (func() error, error) { return c.start(dir) })
}

// runWith runs a package's tests while a server does.
func runWith(m Runner, server string, start func() (stop func() error, err error)) int {
	stop, err := start()
	if err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", server, err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stop %s: %v\n", server, err)
		return 1
	}
	return code
}

func (c *ClickHouse) start(dir string) (stop func() error, err error) {
	if n := os.Getenv(EnvShards); n != "" {
		shards, err := strconv.Atoi(n)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", EnvShards, err)
		}
		if c.shards, err = startShards(dir, shards); err != nil {
			return nil, err
		}
		return c.shards.stop, nil
	}
	library, err := engines.ClickHouse()
	if err != nil {
		return nil, err
	}
	c.server, err = clickhouse.New(clickhouse.Config{
		Library: library, Path: dir, Database: "millrace", Listen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return launch(c.server)
}

// launch runs a server until stop is called, and returns when it is ready.
func launch(server interface {
	Run(context.Context) error
	Ready() <-chan struct{}
},
) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
		return func() error { cancel(); return <-ended }, nil
	case err := <-ended:
		cancel()
		return nil, err
	}
}

// Database makes a migrated database for a test and returns how to connect to
// it.
func (c *ClickHouse) Database(t testing.TB) *driver.Options {
	t.Helper()
	o := c.Empty(t)
	db := driver.OpenDB(o)
	defer db.Close()
	if err := c.Topology().Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return o
}

// Empty makes a database without tables for a test and returns how to connect to it.
func (c *ClickHouse) Empty(t testing.TB) *driver.Options {
	t.Helper()
	name := fmt.Sprintf("test_%d", c.serial.Add(1))
	admin := driver.OpenDB(c.options("millrace"))
	defer admin.Close()
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name+c.Topology().OnCluster()); err != nil {
		t.Fatal(err)
	}
	return c.options(name)
}

// Topology says where the tables of a database are.
func (c *ClickHouse) Topology() schema.Topology {
	if c.shards == nil {
		return schema.Topology{}
	}
	return schema.Topology{Cluster: ClusterName, SingleCopies: true}
}

// Rows is what a statement names that changes the rows of a table themselves, such as ALTER TABLE … DELETE.
func (c *ClickHouse) Rows(table string) string {
	return c.Topology().Local(table) + c.Topology().OnCluster()
}

// Shards is the cluster that the tests run over, or nil.
func (c *ClickHouse) Shards() *Shards { return c.shards }

func (c *ClickHouse) options(database string) *driver.Options {
	if c.shards != nil {
		return c.shards.Options(0, database)
	}
	return &driver.Options{
		Addr: []string{c.server.Addr().String()},
		Auth: driver.Auth{Database: database, Username: "default"},
	}
}

// NATS starts a server that lives as long as the test and returns its URL.
func NATS(t testing.TB) *embeddednats.Server {
	t.Helper()
	s, err := embeddednats.New(embeddednats.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stop, err := launch(s)
	if err != nil {
		t.Fatal("nats:", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error("nats:", err)
		}
	})
	return s
}

// Connect connects to a server, as Millrace does, for as long as the test lives.
func Connect(t testing.TB, s *embeddednats.Server) *nats.Conn {
	t.Helper()
	login, err := s.Login(stream.RoleMillrace)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.ClientURL(), login)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Go runs a part until stop is called or the test ends. Pools and servers that the test made
// before are closed only when the part has ended: a pool that closes waits for the connections
// that a part holds, so a failed test would hang.
func Go(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer close(ended) // also when run calls t.Fatal
		ended <- run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Log returns a logger that writes to the test's log.
func Log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(lines{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type lines struct{ t testing.TB }

func (l lines) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

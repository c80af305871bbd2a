// Package viewtest gives the query service's tests what it reads: an embedded
// ClickHouse with the schema, and a stand-in for the projector that writes
// batches and announces them as a projector does.
package viewtest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/engines"
	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// Server is the ClickHouse server of a test process, which can have only one.
type Server struct {
	addr      string
	databases atomic.Int64
}

// Main runs a package's tests with a server, which it hands to use first. It
// returns the exit status.
func Main(m *testing.M, use func(*Server)) int {
	code := 1
	err := serve(func(s *Server) {
		use(s)
		code = m.Run()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "clickhouse for tests:", err)
		return 1
	}
	return code
}

func serve(during func(*Server)) error {
	dir, err := os.MkdirTemp("", "millrace-query-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	set, err := engines.Default()
	if err != nil {
		return err
	}
	srv, err := clickhouse.New(clickhouse.Config{
		Library: set.ClickHouse, Path: dir, Database: "millrace", Listen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	select {
	case <-srv.Ready():
		during(&Server{addr: srv.Addr().String()})
	case err := <-ended:
		cancel()
		return err
	}
	cancel()
	return <-ended
}

// Options are those of a database of the test's own, with the schema.
func (s *Server) Options(t testing.TB) *ch.Options {
	t.Helper()
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	admin := s.open(t, "")
	if err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	db := ch.OpenDB(s.options(name))
	defer db.Close()
	migrate(t, db)
	return s.options(name)
}

func migrate(t testing.TB, db *sql.DB) {
	t.Helper()
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) options(database string) *ch.Options {
	return &ch.Options{Addr: []string{s.addr}, Auth: ch.Auth{Database: database}}
}

func (s *Server) open(t testing.TB, database string) driver.Conn {
	t.Helper()
	return Open(t, s.options(database))
}

// Open connects until the test ends.
func Open(t testing.TB, opts *ch.Options) driver.Conn {
	t.Helper()
	conn, err := ch.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Error(err)
		}
	})
	return conn
}

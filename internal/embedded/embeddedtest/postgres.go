package embeddedtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/millrace-io/millrace/internal/embedded/engines"
	"github.com/millrace-io/millrace/internal/embedded/postgres"
	schema "github.com/millrace-io/millrace/schemas/postgres"
)

// Postgres is the server of a test process: the embedded one, or another that MILLRACE_TEST_POSTGRES_DSN names, whose
// login may make databases. Tests of several processes use that at the same time.
type Postgres struct {
	dir    string // of the embedded server
	dsn    string // of the migrated database that tests get copies of
	serial atomic.Int64
}

// Main runs a package's tests with a Postgres server, for TestMain:
//
//	var engine embeddedtest.Postgres
//
//	func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }
func (p *Postgres) Main(m Runner) int { return runWith(m, "postgres", p.start) }

// Start runs the server for as long as a test lives.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	stop, err := p.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// start runs the server until stop is called.
func (p *Postgres) start() (stop func() error, err error) {
	if dsn := os.Getenv("MILLRACE_TEST_POSTGRES_DSN"); dsn != "" {
		stop, err = p.prepareOther(dsn)
	} else {
		stop, err = p.startEmbedded()
	}
	if err != nil {
		return nil, err
	}
	if err := p.migrate(); err != nil {
		return nil, fmt.Errorf("%w; %w", err, stop())
	}
	return stop, nil
}

func (p *Postgres) startEmbedded() (stop func() error, err error) {
	engine, err := engines.Postgres()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "millrace-test-*")
	if err != nil {
		return nil, err
	}
	p.dir = dir
	server, err := postgres.New(postgres.Config{
		Engine: engine, Dir: dir + "/postgres", Listen: "127.0.0.1:0", MakesDatabases: true,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	end, err := launch(server)
	if err != nil {
		return nil, err
	}
	p.dsn = server.DSN()
	return func() error {
		defer os.RemoveAll(dir)
		return end()
	}, nil
}

// prepareOther makes a database on another server, which stop drops. Those of the tests are left to whoever runs it.
func (p *Postgres) prepareOther(dsn string) (stop func() error, err error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	admin, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("millrace_test_%d", os.Getpid())
	if _, err := admin.Exec("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		return nil, errors.Join(err, admin.Close())
	}
	u.Path = "/" + name
	p.dsn = u.String()
	return func() error {
		_, err := admin.Exec("DROP DATABASE " + name)
		return errors.Join(err, admin.Close())
	}, nil
}

func (p *Postgres) migrate() error {
	db, err := sql.Open("pgx", p.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return schema.Migrate(context.Background(), db)
}

// DSN makes a migrated database for a test and returns its URL.
func (p *Postgres) DSN(t testing.TB) string { return p.database(t, true) }

// EmptyDSN makes a database without tables for a test and returns its URL.
func (p *Postgres) EmptyDSN(t testing.TB) string { return p.database(t, false) }

func (p *Postgres) database(t testing.TB, migrated bool) string {
	t.Helper()
	u, err := url.Parse(p.dsn)
	if err != nil {
		t.Fatal(err)
	}
	template := "template0"
	if migrated {
		template = u.Path[1:]
	}
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), p.serial.Add(1))
	u.Path = "/postgres"
	admin, err := sql.Open("pgx", u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// AnalystPassword is the password of the login analyst. A test is skipped where the server is not the embedded one.
func (p *Postgres) AnalystPassword(t testing.TB) string {
	t.Helper()
	if p.dir == "" {
		t.Skip("the server has no login analyst")
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "postgres", "analyst-password"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Pool makes a migrated database for a test and connects to it for as long as
// the test lives. configure prepares the connections.
func (p *Postgres) Pool(t testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(p.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configure {
		c(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/postgres"
)

// poolConns is how many connections to Postgres a process opens at most, and
// poolIdle after what time without use it closes one, unless its DSN says otherwise
// (pool_max_conns, pool_max_conn_idle_time). What serves a connection in Postgres
// takes some 20 MB.
const (
	poolConns = 16
	poolIdle  = 15 * time.Second
	// poolCheck is the time between two looks for them. The pool gives out the
	// connection that was used last, so those that only a burst needed are left alone,
	// but a look turns that order around.
	poolCheck = 20 * time.Second
)

// newPool makes a pool, and returns how to cut its connections. It connects when it is
// used first.
func newPool(
	dsn string, reg prometheus.Registerer, slow *dbpool.Slow, log *slog.Logger,
) (pool *pgxpool.Pool, cut func(), err error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("MILLRACE_POSTGRES_DSN: %w", err)
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		cfg.MaxConns = poolConns
	}
	if !strings.Contains(dsn, "pool_max_conn_idle_time") {
		cfg.MaxConnIdleTime, cfg.HealthCheckPeriod = poolIdle, poolCheck
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "millrace"
	}
	queue.Configure(cfg)
	cut = dbpool.CuttablePostgres(cfg)
	pool, err = dbpool.Postgres(context.Background(), cfg, reg, "postgres", slow, log)
	return pool, cut, err
}

// postgresGrace is how long what works with Postgres may take to complete what it has begun
// when it is told to stop. Beside a server that hangs it would wait for as long as its
// statements may take, one after the other.
const postgresGrace = 5 * time.Second

// migratePostgres brings the tables up to date, and who may read them.
func migratePostgres(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := postgres.Migrate(ctx, db); err != nil {
		return err
	}
	granted, err := postgres.GrantReading(ctx, db)
	if err == nil && !granted {
		log.Info("people cannot read Millrace's tables in Postgres: for that, make a role there and migrate again",
			"role", postgres.Readers)
	}
	return err
}

// database is Postgres.
type database struct {
	*tables
	pool *pgxpool.Pool
}

// openPostgres makes the pool, if a system of this process needs Postgres and there is one. The pool is closed after
// the systems have ended.
func (n *node) openPostgres() error {
	if r := n.roles; n.postgres == "" && r.Scheduler && !r.Ingest && !r.Query {
		return errors.New("the role scheduler needs Postgres: set MILLRACE_POSTGRES_DSN")
	}
	if n.postgres == "" || !needPostgres(n.roles) {
		return nil
	}
	pool, cut, err := newPool(n.postgres, n.registry, n.slow, n.log)
	if err != nil {
		return err
	}
	n.database = &database{n.awaitTables("Postgres", func(ctx context.Context) error {
		if !n.awaits {
			return migratePostgres(ctx, pool, n.log)
		}
		db := stdlib.OpenDBFromPool(pool)
		defer db.Close()
		return postgres.Check(ctx, db)
	}, postgresAway), pool}
	n.cuts = append(n.cuts, func() { time.AfterFunc(postgresGrace, cut) })
	n.stack.launch("postgres pool", func(ctx context.Context) error {
		<-ctx.Done()
		pool.Close()
		return nil
	})
	return n.sample(clock("postgres", "millrace_postgres_clock_offset_seconds",
		func(ctx context.Context) (now time.Time, err error) {
			err = pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
			return now, err
		}))
}

// check is for /ready. Events and views need no Postgres, and the calls that do say so.
func (d *database) check() httpapi.Check {
	return httpapi.Check{Name: "postgres", Probe: d.pool.Ping, Need: httpapi.Never}
}

// postgresAway tells whether an error means that the server cannot be reached now, or that its tables are not there
// yet, and not that it has refused what it was asked for.
func postgresAway(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		// Starting, ending, or out of room.
		return strings.HasPrefix(refused.Code, "57P") || strings.HasPrefix(refused.Code, "53")
	}
	return !errors.Is(err, postgres.ErrNewerSchema)
}

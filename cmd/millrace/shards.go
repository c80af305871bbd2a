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
	"golang.org/x/sync/errgroup"

	ingestacts "github.com/millrace-io/millrace/ingest/acts"
	"github.com/millrace-io/millrace/ingest/queues"
	"github.com/millrace-io/millrace/ingest/shards"
	ingestsources "github.com/millrace-io/millrace/ingest/sources"
	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/readlimits"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/projector/work"
	queryacts "github.com/millrace-io/millrace/query/acts"
	queryaudit "github.com/millrace-io/millrace/query/audit"
	queryqueues "github.com/millrace-io/millrace/query/queues"
	queryshards "github.com/millrace-io/millrace/query/shards"
	querysources "github.com/millrace-io/millrace/query/sources"
	"github.com/millrace-io/millrace/query/transitions"
	"github.com/millrace-io/millrace/query/views"
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

// openPostgres makes the pool, and returns how to cut its connections. It connects when it is
// used first.
func openPostgres(
	dsn string, reg prometheus.Registerer, log *slog.Logger,
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
	pool, err = dbpool.Postgres(context.Background(), cfg, reg, "postgres", log)
	return pool, cut, err
}

// trackingGrace is how long what works with Postgres may take to complete what it has begun
// when it is told to stop. Beside a server that hangs it would wait for as long as its
// statements may take, one after the other.
const trackingGrace = 5 * time.Second

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

// runTracking starts what shards need of Postgres, if there is one. A server
// that is away is no reason not to start: events do not need it.
func (n *node) runTracking(ctx context.Context, s *stack, r roles) (*tracking.Store, error) {
	if n.postgres == "" {
		if r.Scheduler && !r.Ingest && !r.Query {
			return nil, errors.New("the role scheduler needs Postgres: set MILLRACE_POSTGRES_DSN")
		}
		n.log.Warn("shard tracking is off: MILLRACE_POSTGRES_DSN is not set")
		return nil, nil
	}
	pool, cut, err := openPostgres(n.postgres, n.registry, n.log)
	if err != nil {
		return nil, err
	}
	if err := n.samplePostgres(pool); err != nil {
		return nil, err
	}
	store, service, err := n.newTracking(pool, r)
	if err != nil {
		return nil, err
	}
	events, err := n.newSources(pool, r)
	if err != nil {
		return nil, err
	}
	schedules, err := n.newScheduler(r)
	if err != nil {
		return nil, err
	}
	follow, err := n.newJobs(pool, r)
	if err != nil {
		return nil, err
	}
	readers, err := readlimits.New(readlimits.Config{}, pool, n.registry, n.log)
	if err != nil {
		return nil, err
	}
	first, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = n.preparePostgres(first, pool)
	if err != nil && !away(err) {
		pool.Close()
		return nil, err
	}
	if err != nil {
		n.log.Warn("shard tracking waits for Postgres", "error", err)
	}
	migrated := err == nil
	s.launch("shard tracking", func(ctx context.Context) error {
		defer pool.Close()
		context.AfterFunc(ctx, func() { time.AfterFunc(trackingGrace, cut) })
		if !migrated {
			if err := n.untilMigrated(ctx, pool); err != nil || ctx.Err() != nil {
				return err
			}
		}
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return schedules(ctx) })
		if !r.Ingest {
			return g.Wait()
		}
		reports, err := userqueue.NewReports(n.ownQueues, n.handout)
		if err != nil {
			return err
		}
		serve := func(ctx context.Context) error { return n.ownQueues.Serve(ctx, n.nats, n.log) }
		serveReports := func(ctx context.Context) error { return reports.Serve(ctx, n.nats, n.log) }
		purge := func(ctx context.Context) error { return n.ownQueues.Run(ctx, n.log) }
		for _, run := range []func(context.Context) error{
			store.Queues().Run, store.Run, service.Run, serve, serveReports, purge, events.Run, n.acts.Run, follow, readers.Run,
		} {
			g.Go(func() error { return run(ctx) })
		}
		return g.Wait()
	})
	return store, nil
}

// newTracking makes the stores, and in the ingest role the service of the work
// queues: daemons' answers come in there as commands over HTTP do.
func (n *node) newTracking(pool *pgxpool.Pool, r roles) (*tracking.Store, *work.Service, error) {
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{tracking.Kind{}, &userqueue.Kind{}}}, pool, n.log)
	if err != nil {
		return nil, nil, err
	}
	if n.ownQueues, err = userqueue.New(queues); err != nil {
		return nil, nil, err
	}
	store, err := tracking.New(tracking.Config{Keep: n.retention.Shards}, queues, n.log)
	if err != nil {
		return nil, nil, err
	}
	if n.acts, err = acts.New(n.ownQueues, store, n.log); err != nil || !r.Ingest {
		return store, nil, err
	}
	if n.handout, err = handout.New(n.nats, queues, n.work); err != nil {
		return nil, nil, err
	}
	service, err := work.New(work.Config{Streams: n.work}, work.Deps{
		NATS: n.nats, Store: queues, Handout: n.handout, Shards: store, Registry: n.registry, Log: n.log,
	})
	return store, service, err
}

// sourceEvents is the advisory lock of the process that publishes the events of
// sources.
const sourceEvents int64 = 0x6d696c6c_73726373

// newSources makes the store of the sources that are crawled, and in the ingest
// role what publishes their events.
func (n *node) newSources(pool *pgxpool.Pool, r roles) (publisher *outbox.Publisher, err error) {
	if n.sources, err = sources.New(pool); err != nil || !r.Ingest {
		return nil, err
	}
	return outbox.NewPublisher(outbox.Config{Key: sourceEvents}, n.sources.Outbox(), outbox.Deps{
		NATS: n.nats, Postgres: pool, Registry: n.registry, Log: n.log, Acked: n.acked,
	})
}

// preparePostgres brings the tables up to date, or tells whether somebody else has.
func (n *node) preparePostgres(ctx context.Context, pool *pgxpool.Pool) error {
	if !n.awaits {
		return migratePostgres(ctx, pool, n.log)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	return postgres.Check(ctx, db)
}

// untilMigrated tries until Postgres is there, with its tables.
func (n *node) untilMigrated(ctx context.Context, pool *pgxpool.Pool) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		err := n.preparePostgres(ctx, pool)
		if err == nil {
			n.log.Info("Postgres is there: shard tracking begins")
			return nil
		}
		if ctx.Err() == nil && !away(err) && !unmade(err) {
			return err
		}
	}
}

// unmade tells whether the server has no such database. One that has just come
// up may be about to make it.
func unmade(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "3D000"
}

// away tells whether an error means that the server cannot be reached now,
// and not that it has refused what it was asked for.
func away(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		// Starting, ending, or out of room.
		return strings.HasPrefix(refused.Code, "57P") || strings.HasPrefix(refused.Code, "53")
	}
	return !errors.Is(err, postgres.ErrNewerSchema)
}

// registerShards puts the routes of a store on a server.
func (n *node) registerShards(store *tracking.Store, a *auth.Auth, r roles) (func(*httpapi.Server), error) {
	if store == nil {
		return func(*httpapi.Server) {}, nil
	}
	var parts []interface{ Register(*httpapi.Server) }
	if r.Ingest {
		commands, err := shards.New(store, n.handout, a, n.log)
		if err != nil {
			return nil, err
		}
		ownCommands, err := queues.New(n.ownQueues, n.handout, a, n.log)
		if err != nil {
			return nil, err
		}
		actCommands, err := ingestacts.New(n.acts, a, n.log)
		if err != nil {
			return nil, err
		}
		sourceCommands, err := ingestsources.New(n.sources, a, n.log)
		if err != nil {
			return nil, err
		}
		parts = append(parts, commands, ownCommands, actCommands, sourceCommands)
	}
	if r.Query {
		reads, err := queryshards.New(queryshards.Config{}, store, a, n.log)
		if err != nil {
			return nil, err
		}
		if err := n.sample(queryshards.Gauges(store), views.QueueGauges(store.Queues())); err != nil {
			return nil, err
		}
		ownReads, err := queryqueues.New(transitions.Config{}, n.ownQueues, a, n.log)
		if err != nil {
			return nil, err
		}
		actReads, err := queryacts.New(n.acts, a, n.log)
		if err != nil {
			return nil, err
		}
		sourceReads, err := querysources.New(n.sources, a, n.log)
		if err != nil {
			return nil, err
		}
		jobAudit, err := queryaudit.New(store.Pool(), a, n.log)
		if err != nil {
			return nil, err
		}
		parts = append(parts, reads, ownReads, actReads, sourceReads, jobAudit)
	}
	ofJobs, err := n.jobRoutes(a, r)
	if err != nil {
		return nil, err
	}
	parts = append(parts, ofJobs...)
	// Events and views need no Postgres, and the calls that do say so.
	n.also = append(n.also, httpapi.Check{Name: "postgres", Probe: store.Ping, Need: httpapi.Never})
	return func(srv *httpapi.Server) {
		for _, p := range parts {
			p.Register(srv)
		}
	}, nil
}

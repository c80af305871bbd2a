package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/integrity"
	"github.com/millrace-io/millrace/internal/processes"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/query/dashboard"
	"github.com/millrace-io/millrace/query/live"
	schema "github.com/millrace-io/millrace/schemas/clickhouse"
	"github.com/millrace-io/millrace/schemas/stream"
)

// roles are the parts of Millrace that a process runs.
type roles struct {
	Ingest, Projector, Query, Scheduler bool
}

// names are the roles as --role has them.
func (r roles) names() (names []string) {
	for _, one := range []struct {
		is   bool
		name string
	}{{r.Ingest, "ingest"}, {r.Projector, "projector"}, {r.Query, "query"}, {r.Scheduler, "scheduler"}} {
		if one.is {
			names = append(names, one.name)
		}
	}
	return names
}

// node is a process with its roles: what it is configured to do, and what its systems share.
type node struct {
	nodeSettings
	log              *slog.Logger
	stack            *stack
	roles            roles
	nats             *nats.Conn
	js               jetstream.JetStream
	tables           []*tables
	clickhouseTables *tables     // nil without the roles projector and query
	database         *database   // nil without Postgres
	reads            driver.Conn // of the query role, to ClickHouse
	auth             *auth.Auth
	registry         *prometheus.Registry
	tracer           trace.Tracer // nil: nothing is traced
	slow             *dbpool.Slow
	sampler          *sampler.Sampler
	collector        *collector
	integrity        *integrity.Checker // of the projector role
	supervisor       *supervisor
	stores           stores
	cuts             []func() // called when the systems are told to end
	warnings         []string // what the configuration puts at risk
}

// systemSettings are about the systems of a process, whatever servers it uses.
type systemSettings struct {
	Retention retentionSettings `embed:"" group:"Retention"`
	Jobs      jobSettings       `embed:"" group:"Jobs"`
	Uploads   uploadSettings    `embed:"" group:"Uploads"`
	Webhooks  webhookSettings   `embed:"" group:"Webhooks"`
	Batches   batchSettings     `embed:"" group:"Batches"`
	Profile   profileSettings   `embed:"" group:"Diagnosis"`
}

// nodeSettings are what a process is configured to do.
type nodeSettings struct {
	pipeline   pipelineSettings
	http       httpSettings
	data       string        // folder of the projector's key store and of the index of items
	lease      time.Duration // of the projector; 0: its default
	groups     uint32        // slot groups of the stream; 0: as they are
	awaits     bool          // for tables that "millrace migrate" brings up to date
	clickhouse *clickhouse.Options
	topology   schema.Topology // of the tables in ClickHouse
	postgres   string          // DSN; empty: none
	work       stream.WorkConfig
	systemSettings
	maxAge      time.Duration            // of folded events on the stream
	demo        bool                     // the demonstration runs, too
	confinement func() map[string]string // of the embedded engines; nil: none is
	watches     []*watch                 // of the embedded engines
}

// stores are where the systems on Postgres keep their rows; nil without it.
type stores struct {
	queues  *queue.Store
	own     *userqueue.Store // user-defined queues
	handout *handout.Handout // in the ingest role
	shards  *tracking.Store
	acts    *acts.Store
	items   *items.Subject
	crawlStores
	uploads *uploads.Store
	files   *uploads.Files
	feeder  *uploads.Feeder
	recrawl *recrawl.Store
}

func newNode(log *slog.Logger, settings nodeSettings) (*node, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(),
	)
	samples, err := sampler.New(registry, log)
	if err != nil {
		return nil, err
	}
	n := &node{
		nodeSettings: settings, log: log, registry: registry, sampler: samples, collector: newCollector(),
		supervisor: newSupervisor(registry, log),
	}
	if n.slow, err = dbpool.NewSlow(settings.Profile.SlowStatement, registry, log); err != nil {
		return nil, err
	}
	return n, n.sample(disks(settings.data))
}

// traces has the node export its traces, if the environment asks for that, until all that
// is on the stack later has ended.
func (n *node) traces(ctx context.Context, s *stack) error {
	tracer, end, err := openTracer(ctx, version, n.log)
	if err != nil || tracer == nil {
		return err
	}
	n.tracer = tracer
	s.launch("traces", func(ctx context.Context) error {
		<-ctx.Done()
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
		defer cancel()
		if err := end(flush); err != nil {
			n.log.Warn("the last traces are not exported", "error", err)
		}
		return nil
	})
	return nil
}

// lastTraces is how long the receiver may take for the last traces.
const lastTraces = 2 * time.Second

// warn tells what the configuration puts at risk, now and on /health.
func (n *node) warn(risk string) {
	if risk != "" {
		n.log.Warn(risk)
		n.warnings = append(n.warnings, risk)
	}
}

// ensureStreams creates streams or brings them up to date.
func ensureStreams(ctx context.Context, nc *nats.Conn, cfg stream.Config) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return stream.Ensure(ctx, js, cfg)
}

// run starts the roles on the stack.
func (n *node) run(ctx context.Context, s *stack, r roles) (err error) {
	n.stack, n.roles = s, r
	if n.js, err = jetstream.New(n.nats); err != nil {
		return err
	}
	if err := n.sample(clockOfNATS(n.js)); err != nil {
		return err
	}
	if err := n.openShared(); err != nil {
		return err
	}
	all, err := n.makeSystems()
	if err != nil {
		return err
	}
	if n.database != nil {
		all.checks = append(all.checks, n.database.check())
	}
	for _, t := range n.tables {
		if err := t.prepareFirst(ctx); err != nil {
			return err
		}
	}
	for _, w := range n.watches {
		all.add(share{checks: []httpapi.Check{w.check()}, warnings: w.warnings})
	}
	hub, err := n.liveHub(all.views)
	if err != nil {
		return err
	}
	return n.serve(all, hub)
}

// openShared opens what systems share.
func (n *node) openShared() (err error) {
	r := n.roles
	n.auth = auth.New(auth.Config{Secret: n.http.JWTSecret, AnonymousIngest: n.http.AnonymousIngest})
	if n.auth.Weak() && (r.Ingest || r.Query || r.Scheduler) {
		n.log.Warn("AUTH_JWT_SECRET is short: use at least 32 random bytes")
	}
	if r.Projector {
		if err := n.runIntegrity(); err != nil {
			return err
		}
		if err := n.sample(backup.Gauges(n.js)); err != nil {
			return err
		}
	}
	if r.Projector || r.Query {
		n.clickhouseTables = n.awaitTables("ClickHouse", n.updateClickHouse, clickhouseAway)
	}
	if r.Query {
		n.warn(n.http.Limits.atRisk())
		if n.reads, err = n.openClickHouse("query"); err != nil {
			return err
		}
		if err := n.sample(disksOfClickHouse(n.reads)); err != nil {
			return err
		}
	}
	return n.openPostgres()
}

// openClickHouse makes a pool of connections, which is closed after the systems have ended. When they are told to
// end, what is under way on the pool is cut: it is done again, or nobody waits for it.
func (n *node) openClickHouse(name string) (driver.Conn, error) {
	conn, cut, err := dbpool.ClickHouse(n.clickhouse, n.registry, name, n.slow)
	if err != nil {
		return nil, err
	}
	n.cuts = append(n.cuts, cut)
	n.stack.launch("clickhouse for "+name, func(ctx context.Context) error {
		<-ctx.Done()
		return conn.Close()
	})
	return conn, nil
}

// liveHub serves the live views of all systems; nil without the query role.
func (n *node) liveHub(views []live.View) (*live.Hub, error) {
	if !n.roles.Query {
		return nil, nil
	}
	hub, err := live.New(live.Config{
		Origins: n.http.AllowedOrigins, Connections: n.http.Limits.Connections, Compress: n.http.Limits.Compress,
	}, views, n.registry, n.log)
	if err != nil {
		return nil, err
	}
	n.supervisor.add("live views", part{"connections", func(ctx context.Context) error {
		<-ctx.Done()
		hub.Wait()
		return nil
	}})
	return hub, nil
}

// serve starts the systems, and then the server, so that it is the first to end.
func (n *node) serve(all share, hub *live.Hub) error {
	if err := n.sample(all.gauges...); err != nil {
		return err
	}
	srv, err := n.newServer(all)
	if err != nil {
		return err
	}
	for _, register := range all.routes {
		register(endpoint.API{Server: srv, Auth: n.auth, Log: n.log})
	}
	if hub != nil {
		hub.Register(srv, n.auth)
	}
	if err := n.tellProcesses(srv); err != nil {
		return err
	}
	if err := n.sample(srv.Dependencies()); err != nil {
		return err
	}
	ln, err := srv.Listen()
	if err != nil {
		return err
	}
	n.stack.launch("systems", func(ctx context.Context) error {
		for _, cut := range n.cuts {
			defer context.AfterFunc(ctx, cut)()
		}
		return n.supervisor.Run(ctx)
	})
	n.stack.launch("sampler", n.sampler.Run)
	n.stack.launch("http", func(ctx context.Context) error { return srv.Serve(ctx, ln) })
	return nil
}

// tellProcesses answers for this process, and tells of all.
func (n *node) tellProcesses(srv *httpapi.Server) error {
	p, err := processes.New(version, n.roles.names(), processes.Deps{
		NATS: n.nats, JS: n.js, Metrics: n.registry, Server: srv, Log: n.log,
	})
	if err != nil {
		return err
	}
	p.Register(endpoint.API{Server: srv, Auth: n.auth, Log: n.log})
	n.supervisor.add("processes", part{"answers", p.Run})
	return nil
}

func (n *node) newServer(all share) (*httpapi.Server, error) {
	guard, err := n.http.metricsGuard()
	if err != nil {
		return nil, err
	}
	nats := httpapi.Check{Name: "nats", Probe: n.natsConnected}
	if n.roles.Ingest {
		nats.Probe = n.takesIn(n.js)
	}
	deps := httpapi.Deps{
		Log: n.log, Registry: n.registry, Tracer: n.tracer, MetricsGuard: guard, Warnings: all.warnings,
		Checks: append([]httpapi.Check{nats}, all.checks...),
	}
	if n.roles.Query {
		deps.Site = dashboard.Handler()
	}
	cfg := httpapi.Config{
		Addr: n.http.Addr, Version: version, Warnings: n.warnings, Confinement: n.confinement, Off: n.off,
		Protected: n.http.JWTSecret != "", Origins: n.http.AllowedOrigins, Connections: n.http.Limits.connections(),
		Proxies: n.http.Limits.TrustedProxies, Drain: n.http.Drain,
		Slow: n.Profile.SlowRequest,
	}
	if n.integrity != nil {
		cfg.Damage = n.integrity.Damage
	}
	return httpapi.New(cfg, deps)
}

func (n *node) natsConnected(context.Context) error {
	if !n.nats.IsConnected() {
		return fmt.Errorf("the connection is %s", n.nats.Status())
	}
	return nil
}

// election is for how long the stream may have nobody who answers for it: the
// servers of a cluster agree on a leader within seconds.
const election = 15 * time.Second

// takesIn returns a check that the server, beside being there, answers for
// the stream: one that is cut off from the others of its cluster, or whose disk
// has failed, does not.
func (n *node) takesIn(js jetstream.JetStream) func(context.Context) error {
	var silent time.Time // since when; zero: it answers
	return func(ctx context.Context) error {
		if err := n.natsConnected(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := js.Stream(ctx, stream.Events)
		switch {
		case err == nil:
			silent = time.Time{}
		case silent.IsZero():
			silent = time.Now()
		case time.Since(silent) > election:
			return fmt.Errorf("the stream %s does not answer: %w", stream.Events, err)
		}
		return nil
	}
}

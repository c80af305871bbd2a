package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/batches"
	ingesthttp "github.com/millrace-io/millrace/ingest/http"
	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/lag"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	projector "github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/query/dashboard"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline"
	"github.com/millrace-io/millrace/schemas/stream"

	querybatches "github.com/millrace-io/millrace/query/batches"
	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// roles are the parts of Millrace that a process runs.
type roles struct {
	Ingest, Projector, Query, Scheduler bool
}

// node is what the roles of a process share.
type node struct {
	log         *slog.Logger
	pipeline    pipelineSettings
	http        httpSettings
	data        string        // folder of the projector's key store
	lease       time.Duration // of the projector; 0: its default
	groups      uint32        // slot groups of the stream; 0: as they are
	awaits      bool          // for tables that "millrace migrate" brings up to date
	nats        *nats.Conn
	clickhouse  *clickhouse.Options
	postgres    string // DSN; empty: none
	work        stream.WorkConfig
	handout     *handout.Handout // in the ingest role, where there is Postgres
	ownQueues   *userqueue.Store // where there is Postgres
	acts        *acts.Store      // where there is Postgres
	sources     *sources.Store   // where there is Postgres
	jobs        *jobs.Store      // where there is Postgres
	also        []httpapi.Check
	topology    schema.Topology // of the tables
	retention   retentionSettings
	jobSettings jobSettings
	maxAge      time.Duration // of folded events on the stream
	registry    *prometheus.Registry
	sampler     *sampler.Sampler
	collector   *collector
	warnings    []string // what the configuration puts at risk

	confinement func() map[string]string // of the embedded engines; nil: none is
	damage      func() []string          // what the streams have lost; nil: nobody looks
	acked       func(string, uint64)     // is told what a stream has acknowledged; nil: nobody is
}

func newNode(log *slog.Logger, pipeline pipelineSettings, http httpSettings, data string) (*node, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(),
	)
	samples, err := sampler.New(registry, log)
	if err != nil {
		return nil, err
	}
	n := &node{
		log: log, pipeline: pipeline, http: http, data: data, registry: registry, sampler: samples,
		collector: newCollector(),
	}
	return n, n.sample(disks(data))
}

// warn tells what the configuration puts at risk, now and on /health.
func (n *node) warn(risk string) {
	if risk != "" {
		n.log.Warn(risk)
		n.warnings = append(n.warnings, risk)
	}
}

// migrate creates streams and tables or brings them up to date; without a
// ClickHouse, the streams alone.
func migrate(ctx context.Context, nc *nats.Conn, ch *clickhouse.Options, topology schema.Topology,
	cfg stream.Config,
) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := stream.Ensure(ctx, js, cfg); err != nil {
		return err
	}
	if ch == nil {
		return nil
	}
	db := clickhouse.OpenDB(ch)
	defer db.Close()
	return topology.Migrate(ctx, db)
}

// awaitTables returns when the tables in ClickHouse are those of this release.
func (n *node) awaitTables(ctx context.Context) error {
	db := clickhouse.OpenDB(n.clickhouse)
	defer db.Close()
	var told time.Time
	for {
		err := n.topology.Check(ctx, db)
		if err == nil || errors.Is(err, schema.ErrNewerSchema) || ctx.Err() != nil {
			return err
		}
		if now := time.Now(); now.Sub(told) > 10*time.Second {
			n.log.Warn("waiting for the tables in ClickHouse", "error", err)
			told = now
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// run starts the roles on the stack.
func (n *node) run(ctx context.Context, s *stack, r roles) error {
	js, err := jetstream.New(n.nats)
	if err != nil {
		return err
	}
	if err := n.sample(clockOfNATS(js)); err != nil {
		return err
	}
	var unfolded func() map[uint32]lag.Reason
	if r.Projector {
		if unfolded, err = n.runProjector(s, r); err != nil {
			return err
		}
	}
	if r.Projector && !r.Query {
		if err := n.sampleNATS(js, unfolded, nil); err != nil {
			return err
		}
	}
	if !r.Ingest && !r.Query && !r.Scheduler {
		return n.runHTTP(s, nil, nil, false)
	}
	a := auth.New(auth.Config{Secret: n.http.JWTSecret, AnonymousIngest: n.http.AnonymousIngest})
	if a.Weak() {
		n.log.Warn("AUTH_JWT_SECRET is short: use at least 32 random bytes")
	}
	tracks, err := n.runTracking(ctx, s, r)
	if err != nil {
		return err
	}
	shards, err := n.registerShards(tracks, a, r)
	if err != nil {
		return err
	}
	var in *ingesthttp.Handler
	var letters func(*httpapi.Server)
	var crawled *batches.Handler
	if r.Ingest {
		if in, err = n.ingest(a); err != nil {
			return err
		}
		if letters, err = n.letters(a); err != nil {
			return err
		}
		if crawled, err = batches.New(objects.NewNATS(js, max(n.work.Replicas, 1)), a, n.log); err != nil {
			return err
		}
	}
	var out *pipeline.Service
	var hub *live.Hub
	var outcomes *querybatches.Handler
	if r.Query {
		n.warn(n.http.Limits.atRisk())
		var conn driver.Conn
		if out, hub, conn, err = n.query(s, js, tracks); err != nil {
			return err
		}
		if err := n.sample(disksOfClickHouse(conn)); err != nil {
			return err
		}
		if outcomes, err = n.outcomes(tracks, conn, a); err != nil {
			return err
		}
		if err := n.sampleNATS(js, unfolded, out); err != nil {
			return err
		}
	}
	return n.runHTTP(s, func(srv *httpapi.Server) {
		shards(srv)
		if in != nil {
			in.Register(srv)
			letters(srv)
			crawled.Register(srv)
		}
		if out != nil {
			out.Register(srv, a)
			hub.Register(srv, a)
		}
		if outcomes != nil {
			outcomes.Register(srv)
		}
	}, out, r.Ingest)
}

// runProjector returns what tells which slot groups the projector does not fold.
func (n *node) runProjector(s *stack, r roles) (unfolded func() map[uint32]lag.Reason, err error) {
	dir := filepath.Join(n.data, "projector")
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	checker, err := n.runIntegrity(s, dir)
	if err != nil {
		return nil, err
	}
	p, err := projector.New(projector.Config{
		Stages: n.pipeline.Stages.Stages, Dir: dir, Lease: n.lease, SlotGroups: n.groups, Backlog: n.collector.backlog,
		StreamLost:  func() string { return checker.Lost(stream.Events).String() },
		StreamSkips: func() { checker.Suspect(stream.Events) },
	}, n.nats, n.clickhouse, n.registry, n.log)
	if err != nil {
		return nil, err
	}
	s.launch("projector", p.Run)
	n.also = append(n.also, httpapi.Check{Name: "positions", Probe: func(context.Context) error { return p.Damage() }})
	if err := n.runAging(s); err != nil {
		return nil, err
	}
	if err := n.runSubjects(s); err != nil {
		return nil, err
	}
	return p.Unfolded, n.runRetention(s, r)
}

func (n *node) ingest(a *auth.Auth) (*ingesthttp.Handler, error) {
	publisher, err := client.New(n.nats, client.Config{Service: "millrace", Acked: n.acked, Log: n.log})
	if err != nil {
		return nil, err
	}
	return ingesthttp.New(ingesthttp.Config{Limits: n.http.Limits.ingest()}, ingesthttp.Deps{
		Log: n.log, Registry: n.registry, Auth: a, Publisher: publisher, Stages: n.pipeline.Stages.Stages,
	})
}

// query runs the reads of the pipeline, and the live views of all systems. It closes the
// connection that it returns.
func (n *node) query(
	s *stack, js jetstream.JetStream, tracks *tracking.Store,
) (*pipeline.Service, *live.Hub, driver.Conn, error) {
	views, err := n.liveViews(tracks)
	if err != nil {
		return nil, nil, nil, err
	}
	opts, cut := dbpool.Cuttable(n.clickhouse)
	pool, err := clickhouse.Open(opts)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open clickhouse: %w", err)
	}
	conn, err := dbpool.ClickHouse(pool, n.registry, "query")
	if err != nil {
		return nil, nil, nil, errors.Join(err, pool.Close())
	}
	q, err := pipeline.New(pipeline.Config{Stages: n.pipeline.Stages.Stages, Gaps: n.http.Limits.Gaps},
		pipeline.Deps{ClickHouse: conn, NATS: n.nats, JetStream: js, Log: n.log, Registry: n.registry})
	if err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close())
	}
	hub, err := live.New(live.Config{
		Origins: n.http.AllowedOrigins, Connections: n.http.Limits.Connections, Compress: n.http.Limits.Compress,
	}, append(views, q.Views()...), n.registry, n.log)
	if err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close())
	}
	s.launch("query", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, cut)() // requests have ended, and nothing else is worth waiting for
		err := q.Run(ctx)
		hub.Wait()
		return errors.Join(err, conn.Close())
	})
	return q, hub, conn, nil
}

// outcomes makes the reads of batches, which need Postgres; without it there are none.
func (n *node) outcomes(tracks *tracking.Store, conn driver.Conn, a *auth.Auth) (*querybatches.Handler, error) {
	if tracks == nil {
		return nil, nil
	}
	return querybatches.New(querybatches.Deps{
		Postgres: tracks.Pool(), ClickHouse: conn, Auth: a, Registry: n.registry, Log: n.log,
	})
}

// runHTTP starts the server last, so that it is the first to end.
func (n *node) runHTTP(s *stack, register func(*httpapi.Server), q *pipeline.Service, ingests bool) error {
	guard, err := n.http.metricsGuard()
	if err != nil {
		return err
	}
	deps := httpapi.Deps{
		Log: n.log, Registry: n.registry, MetricsGuard: guard,
		Checks: []httpapi.Check{{Name: natsCheck, Probe: n.natsConnected}},
	}
	if q != nil {
		deps.Checks, deps.Site, deps.Warnings = q.Checks(), dashboard.Handler(), q.Warnings
	}
	if ingests {
		js, err := jetstream.New(n.nats)
		if err != nil {
			return fmt.Errorf("run: %w", err)
		}
		deps.Checks = sparing(deps.Checks, n.takesEvents(js))
	}
	deps.Checks = append(deps.Checks, n.also...)
	srv, err := httpapi.New(httpapi.Config{
		Addr: n.http.Addr, Version: version, Warnings: n.warnings, Confinement: n.confinement, Damage: n.damage,
		Protected: n.http.JWTSecret != "", Origins: n.http.AllowedOrigins, Connections: n.http.Limits.connections(),
		Proxies: n.http.Limits.TrustedProxies, Drain: n.http.Drain,
	}, deps)
	if err != nil {
		return err
	}
	if register != nil {
		register(srv)
	}
	if err := n.sample(srv.Dependencies()); err != nil {
		return err
	}
	ln, err := srv.Listen()
	if err != nil {
		return err
	}
	s.launch("sampler", n.sampler.Run)
	s.launch("http", func(ctx context.Context) error { return srv.Serve(ctx, ln) })
	return nil
}

// natsCheck is the name of the check that taking events in rests on.
const natsCheck = "nats"

// sparing are the checks of a process that takes events in: it goes on doing
// so while what queries need is away, and so a balancer has to leave it where
// it is. That it has all it was started for is checked once.
func sparing(checks []httpapi.Check, takesEvents func(context.Context) error) []httpapi.Check {
	for i := range checks {
		switch {
		case checks[i].Name == natsCheck:
			checks[i].Probe = takesEvents
		case checks[i].Need == httpapi.Always:
			checks[i].Need = httpapi.AtFirst
		}
	}
	return checks
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

// takesEvents returns a check that the server, beside being there, answers for
// the stream: one that is cut off from the others of its cluster, or whose disk
// has failed, does not.
func (n *node) takesEvents(js jetstream.JetStream) func(context.Context) error {
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

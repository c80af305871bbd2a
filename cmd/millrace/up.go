package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/embedded/child"
	"github.com/millrace-io/millrace/internal/embedded/confine"
	"github.com/millrace-io/millrace/internal/embedded/engines"
	embeddednats "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/internal/embedded/postgres"
)

// engineAddresses are where the embedded engines listen that are not ClickHouse.
type engineAddresses struct {
	NATSListen     string `help:"Address of the embedded NATS server." env:"MILLRACE_NATS_LISTEN" name:"nats-listen" default:"127.0.0.1:4222" group:"Engines"`
	PostgresListen string `help:"Address of the embedded Postgres." env:"MILLRACE_POSTGRES_LISTEN" name:"postgres-listen" default:"127.0.0.1:5432" group:"Engines"`
}

// engineSettings shape the embedded engines.
type engineSettings struct {
	engineAddresses `embed:""`
	NATSUser        string           `help:"User of Millrace on the embedded NATS server, which then refuses clients without a login." env:"MILLRACE_NATS_USER" name:"nats-user" group:"Engines"`
	NATSPassword    string           `help:"Password of that user." env:"MILLRACE_NATS_PASSWORD" name:"nats-password" group:"Engines"`
	NATSSync        time.Duration    `help:"How often the embedded NATS server syncs messages to disk; 0: before each is acknowledged. With any other value a power cut can lose acknowledged events." env:"MILLRACE_NATS_SYNC_INTERVAL" name:"nats-sync-interval" default:"0" group:"Engines"`
	ClickHouse      clickhouseServer `embed:"" group:"Engines"`
}

type upCmd struct {
	Data     string           `help:"Folder for all data. The demonstration keeps its own in the folder demo below it." env:"MILLRACE_DATA" default:"./data"`
	NoDemo   bool             `help:"Leave the demonstration out." env:"MILLRACE_NO_DEMO"`
	Pipeline pipelineSettings `embed:"" group:"Pipeline"`
	HTTP     httpSettings     `embed:"" group:"HTTP"`
	Stream   streamSettings   `embed:"" group:"Streams"`
	Engines  engineSettings   `embed:"" group:"Engines"`
	Shared   sharedSettings   `embed:"" group:"Servers to use instead of embedded ones"`
	systemSettings

	confined confinements
}

// Run brings everything up and keeps it up until a signal comes.
func (c *upCmd) Run(p *program) error {
	if err := c.Engines.ClickHouse.check(); err != nil {
		return err
	}
	use, err := c.settle(p.log)
	if err != nil {
		return err
	}
	unlock, err := lockData(c.Data, use)
	if err != nil {
		return err
	}
	defer unlock()
	if c.Shared.ClickHouse == "" {
		if err := c.Engines.ClickHouse.complete(c.Data); err != nil {
			return err
		}
	}
	s := newStack(p.log)
	err = c.start(p, s)
	if err == nil {
		err = s.wait(p.ctx)
		p.log.Info("stopping")
	}
	if p.ctx.Err() != nil && errors.Is(err, p.ctx.Err()) {
		err = nil // a signal during the start
	}
	err = errors.Join(err, s.stop(p.hurry, err))
	if errors.Is(err, embeddednats.ErrStuck) && p.ctx.Err() == nil {
		return startAgain(p.log, err)
	}
	return err
}

// startAgain puts the program in the place of itself, with what it was started
// with; files, and the lock of the data, are closed by that. It returns when it
// fails.
func startAgain(log *slog.Logger, reason error) error {
	log.Error("starting again", "reason", reason)
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	return errors.Join(reason, fmt.Errorf("start again: %w", err))
}

func (c *upCmd) start(p *program, s *stack) error {
	begin := time.Now()
	if err := c.Profile.launch(s); err != nil {
		return err
	}
	e, err := c.startEngines(p, s)
	if err != nil {
		return err
	}
	n, err := newNode(p.log, nodeSettings{
		pipeline: c.Pipeline, http: c.HTTP, data: c.Data, clickhouse: e.clickhouse, topology: c.Shared.topology(),
		postgres: e.postgres(), work: c.Stream.work(), systemSettings: c.systemSettings, maxAge: c.Stream.MaxAge,
		demo: !c.NoDemo, confinement: c.confined.texts, watches: e.watches,
	})
	if err != nil {
		return err
	}
	for _, w := range e.watches {
		s.launch("watch of "+w.name, w.Run)
	}
	n.registry.MustRegister(e.restarts)
	if err := n.traces(p.ctx, s); err != nil {
		return err
	}
	n.warn(c.atRisk())
	c.confined.warn(p.log)
	if n.nats, err = e.connect(p, c); err != nil {
		return err
	}
	s.launch("nats connection", closing(n.nats))
	streams := c.Stream.config()
	streams.Stages = c.Pipeline.Stages.Stages
	if err := ensureStreams(p.ctx, n.nats, streams); err != nil {
		return err
	}
	if err := n.run(p.ctx, s, roles{Ingest: true, Projector: true, Query: true, Scheduler: true}); err != nil {
		return err
	}
	c.announce(p, e, time.Since(begin).Round(time.Millisecond))
	return nil
}

// atRisk says what the embedded NATS server may lose as it is configured,
// nothing when it may not.
func (c *upCmd) atRisk() string {
	if c.Shared.NATS != "" || c.Engines.NATSSync == 0 {
		return ""
	}
	return fmt.Sprintf("events acknowledged within the last %s can be lost with the machine's power; "+
		"MILLRACE_NATS_SYNC_INTERVAL=0 syncs each before it is acknowledged", c.Engines.NATSSync)
}

// closing keeps a connection until the stack stops.
func closing(nc *nats.Conn) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		nc.Close()
		return nil
	}
}

// servers is how to connect to the engines.
type servers struct {
	natsURL     string
	natsOptions []nats.Option
	clickhouse  *clickhouse.Options
	postgres    func() string // DSN, once it is ready
	restarts    *prometheus.CounterVec
	watches     []*watch // of what runs in processes of their own
}

func (e servers) connect(p *program, c *upCmd) (*nats.Conn, error) {
	if e.natsURL == "" {
		return connect(p.ctx, "", p.log, e.natsOptions...)
	}
	return c.Shared.NATSLogin.connect(p.ctx, e.natsURL, c.Data, p.log)
}

// startEngines starts what is not configured as a server of its own, side by
// side.
func (c *upCmd) startEngines(p *program, s *stack) (servers, error) {
	e := servers{natsURL: c.Shared.NATS, postgres: func() string { return c.Shared.Postgres }, restarts: newRestarts()}
	var err error
	if c.Shared.ClickHouse != "" {
		if e.clickhouse, err = c.Shared.clickhouseOptions(); err != nil {
			return e, err
		}
	}
	starts := map[string]func() (func(context.Context) error, <-chan struct{}, error){}
	if e.natsURL == "" {
		starts["nats"] = func() (func(context.Context) error, <-chan struct{}, error) {
			srv, err := embeddednats.New(embeddednats.Config{
				Listen: c.Engines.NATSListen, StoreDir: filepath.Join(c.Data, "nats"), User: c.Engines.NATSUser,
				Password: c.Engines.NATSPassword, SyncInterval: c.Engines.NATSSync,
			}, p.log)
			if err != nil {
				return nil, nil, err
			}
			e.natsOptions = []nats.Option{srv.InProcess()}
			return srv.Run, srv.Ready(), nil
		}
	}
	if e.clickhouse == nil {
		e.clickhouse = c.Engines.ClickHouse.options()
		starts["clickhouse"] = func() (func(context.Context) error, <-chan struct{}, error) {
			ch, err := keep("clickhouse", p.log, e.restarts, func() (engine, error) { return c.clickhouseChild(p) })
			if err != nil {
				return nil, nil, err
			}
			e.watches = append(e.watches, &watch{name: "clickhouse", pid: ch.pid, log: p.log, probe: func(ctx context.Context) error {
				return ping(ctx, e.clickhouse)
			}})
			return ch.Run, ch.Ready(), nil
		}
	}
	if c.Shared.Postgres == "" {
		starts["postgres"] = func() (func(context.Context) error, <-chan struct{}, error) {
			pg, err := keep("postgres", p.log, e.restarts, func() (engine, error) { return c.embeddedPostgres(p.log) })
			if err != nil {
				return nil, nil, err
			}
			e.postgres = pg.engine.(*postgres.Server).DSN
			e.watches = append(e.watches, &watch{name: "postgres", pid: pg.pid, log: p.log, probe: func(ctx context.Context) error {
				return newConnection(ctx, e.postgres())
			}})
			return pg.Run, pg.Ready(), nil
		}
	}
	var ready errgroup.Group
	for _, name := range []string{"postgres", "clickhouse", "nats"} {
		start, ok := starts[name]
		if !ok {
			continue
		}
		run, isReady, err := start()
		if err != nil {
			return e, err
		}
		layer := s.launch(name, run)
		ready.Go(func() error { return layer.await(p.ctx, isReady) })
	}
	return e, ready.Wait()
}

func (c *upCmd) embeddedPostgres(log *slog.Logger) (*postgres.Server, error) {
	engine, err := engines.Postgres()
	if err != nil {
		return nil, err
	}
	pg, err := postgres.New(postgres.Config{
		Engine: engine, Dir: filepath.Join(c.Data, "postgres"), Listen: c.Engines.PostgresListen, Confine: true,
	}, log)
	if err == nil {
		c.confined.set("postgres", pg)
	}
	return pg, err
}

func (c *upCmd) clickhouseChild(p *program) (*child.Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start clickhouse: %w", err)
	}
	if _, err := engines.ClickHouse(); err != nil {
		return nil, err
	}
	if err := c.Engines.ClickHouse.checkFree(p.ctx); err != nil {
		return nil, err
	}
	where, err := engines.Dir()
	if err != nil {
		return nil, err
	}
	ch, err := child.New(child.Config{
		Name: "clickhouse", Path: self,
		Args: []string{
			"--log-format=json", "--log-level=warn", "clickhouse", "--data=" + c.Data,
			"--clickhouse-listen=" + c.Engines.ClickHouse.Listen, "--clickhouse-http=" + c.Engines.ClickHouse.HTTP,
			"--clickhouse-max-memory=" + strconv.FormatInt(c.Engines.ClickHouse.MaxMemory, 10),
			"--clickhouse-max-time=" + c.Engines.ClickHouse.MaxTime.String(),
		},
		// The passwords stay in its first stage: see clickhouseCmd.
		Env: append(confine.Environ(),
			engines.EnvDir+"="+where,
			"MILLRACE_CLICKHOUSE_PASSWORD="+c.Engines.ClickHouse.Password,
			"MILLRACE_CLICKHOUSE_ANALYST_PASSWORD="+c.Engines.ClickHouse.AnalystPassword),
		Confines: true,
		Probe:    func(ctx context.Context) error { return ping(ctx, c.Engines.ClickHouse.options()) },
		Stop:     []child.Step{{Signal: syscall.SIGTERM, Grace: 10 * time.Second}},
		Parse:    parseLog,
	}, p.log)
	if err == nil {
		c.confined.set("clickhouse", ch)
	}
	return ch, err
}

func ping(ctx context.Context, o *clickhouse.Options) error {
	conn, err := clickhouse.Open(o)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Ping(ctx)
}

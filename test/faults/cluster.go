package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/embedded/port"
	"github.com/millrace-io/millrace/schemas/stream"
)

// lease is short, so that a stalled projector is replaced many times in a run.
const lease = 3 * time.Second

// cluster is an installation with each part in a process of its own.
type cluster struct {
	dir                                       string
	bin                                       string // the program
	nodes                                     *nodes // nil for a single NATS server
	nats, clickhouse, postgres, ingest, query *process
	projectors                                []*process // two at work, and two that are held down at first
	otherIngest                               *process   // for the shards' work
	schedulers                                []*process // two; none in a soak
	toNATS, toClickHouse, toPostgres          wires      // all that there are
	shared                                    links      // of the roles that have none of their own: projectors do
	natsAddrs                                 []string   // of one server, or of the nodes
	chHTTP, ingestAddr, queryAddr             string
	postgresAddr, otherIngestAddr             string
	objectsAddr                               string // of object storage
	hookAddr                                  string // of the receiver of a webhook
	watched                                   string // folder whose files are uploaded
	postgresPassword                          string
	peer                                      peer               // in the place of the projectors, if any
	tables                                    []string           // that are written to
	kept                                      map[string]rotting // key stores as they were at the last rot, by folder
}

func newCluster(dir, bin string, cfg config) (*cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addrs, err := port.Reserve(81)
	if err != nil {
		return nil, err
	}
	take := func(n int) (taken []string) {
		taken, addrs = addrs[:n], addrs[n:]
		return taken
	}
	servers := take(5)
	c := &cluster{
		dir: dir, bin: bin, kept: map[string]rotting{}, tables: []string{"events", "funnel"}, natsAddrs: servers[:1],
		chHTTP: servers[2], ingestAddr: servers[3], queryAddr: servers[4],
		postgresAddr: take(1)[0], otherIngestAddr: take(1)[0], objectsAddr: take(1)[0], hookAddr: take(1)[0],
		postgresPassword: strconv.FormatUint(rand.Uint64(), 36), watched: filepath.Join(dir, "watched"),
	}
	if err := os.MkdirAll(c.watched, 0o755); err != nil {
		return nil, err
	}
	if cfg.nodes > 1 {
		c.nodes, c.natsAddrs = newNodes(dir, self, cfg.nodes, take)
	}
	connections := func() links {
		l := links{nats: newWires(take, c.natsAddrs...), clickhouse: newWires(take, servers[1])}
		c.toNATS, c.toClickHouse = append(c.toNATS, l.nats...), append(c.toClickHouse, l.clickhouse...)
		return l
	}
	toPostgres := func() wires {
		ws := newWires(take, c.postgresAddr)
		c.toPostgres = append(c.toPostgres, ws...)
		return ws
	}
	c.shared = connections()
	c.shared.postgres = toPostgres()
	shared := append(c.shared.env(),
		fmt.Sprint("MILLRACE_NATS_REPLICAS=", cfg.nodes),
		c.postgresEnv(c.shared.postgres), "MILLRACE_WORK_ACK_WAIT="+cfg.workAckWait().String(),
		"MILLRACE_DEDUP_WINDOW="+cfg.window().String(),
		"MILLRACE_PROJECTOR_LEASE="+lease.String(),
		"MILLRACE_EVENTS_MAX_AGE="+cfg.maxAge().String(),
		fmt.Sprint("MILLRACE_SLOT_GROUPS=", cfg.groups),
		"MILLRACE_S3_ENDPOINT=http://"+c.objectsAddr, "MILLRACE_S3_REGION=us-east-1",
		"MILLRACE_MAX_ATTEMPTS_ERROR=10000", "MILLRACE_UPLOADS_USER_OPEN=1000", // faults cost any number of both
		"MILLRACE_LOCK_CAP_MS=60000", // the harness waits some minutes for what its workers vanish with
		"MILLRACE_WEBHOOK_ALLOW=127.0.0.0/8",
		"MILLRACE_UPLOADS_WATCH=file://"+c.watched, "MILLRACE_UPLOADS_WATCH_USER=watcher", "MILLRACE_UPLOADS_WATCH_EVERY=1s",
		"MILLRACE_UPLOADS_WATCH_SETTLE=1s",
		"MILLRACE_LOG_LEVEL=debug", "MILLRACE_LOG_FORMAT=json",
	)
	if cfg.peer == noPeer && !cfg.soak { // else nobody answers
		shared = append(shared, "MILLRACE_ENRICHMENT=analyser", "MILLRACE_ANALYSER_TIMEOUT="+analyserTimeout.String())
	}
	first := cmp.Or(cfg.from, bin)
	serve := func(name, role, addr string) *process {
		return newProcess(dir, name, first, `"msg":"serving"`, append([]string{"MILLRACE_HTTP_ADDR=" + addr}, shared...),
			"serve", "--role="+role, "--ingest-rate=0", "--data="+filepath.Join(dir, name))
	}
	part := func(name, addr string) *process {
		return newProcess(dir, name, cmp.Or(cfg.parts, self), "", []string{envPart + "=" + name, envListen + "=" + addr, envStore + "=" +
			filepath.Join(dir, name)})
	}
	c.nats, c.postgres = part("nats", servers[0]), part("postgres", c.postgresAddr)
	c.clickhouse = newProcess(dir, "clickhouse", first, "", []string{"MILLRACE_CLICKHOUSE_PASSWORD=" + chPassword},
		"clickhouse", "--data="+filepath.Join(dir, "clickhouse"),
		"--clickhouse-listen="+servers[1], "--clickhouse-http="+c.chHTTP)
	c.ingest = serve("ingest", "ingest", c.ingestAddr)
	c.otherIngest = serve("ingest-b", "ingest", c.otherIngestAddr)
	c.query = serve("query", "query", c.queryAddr)
	for _, name := range projectorNames() {
		p := serve(name, "projector", take(1)[0])
		p.links = connections()
		p.env = append(p.env, p.links.env()...)
		c.projectors = append(c.projectors, p)
	}
	if cfg.peer == noPeer && !cfg.soak {
		for _, name := range []string{"scheduler-a", "scheduler-b"} {
			p := serve(name, "scheduler", take(1)[0])
			p.links = connections()
			p.links.postgres = toPostgres()
			p.env = append(append(p.env, p.links.env()...), c.postgresEnv(p.links.postgres))
			c.schedulers = append(c.schedulers, p)
		}
	}
	c.projectors[2].holds, c.projectors[3].holds = 1, 1
	if cfg.peer != noPeer {
		c.usePeer(dir, self, cfg)
	}
	if slices.ContainsFunc(cfg.kinds, needsClocks) {
		for _, p := range c.clocked() {
			// The server is a child of the process, or executed in its place.
			p.clock = &clock{heirs: p == c.postgres || p == c.clickhouse}
		}
	}
	if !cfg.soak { // what it stores outgrows a small disk
		if err := c.mountDisks(cfg.uploadRows); err != nil {
			return nil, err
		}
	}
	return c, c.preparePostgres()
}

func projectorNames() []string {
	return []string{"projector-a", "projector-b", "projector-c", "projector-d"}
}

// rowRoom is the room in Postgres for a row of a large upload, its item, and what the log has of both.
const rowRoom = 8 << 10

// mountDisks gives those that store something a small disk each, where that is
// allowed.
func (c *cluster) mountDisks(uploadRows int) (err error) {
	if !canMount() {
		return nil
	}
	for _, p := range c.all() {
		path, size := filepath.Join(c.dir, p.name), int64(1<<30)
		switch {
		case p == c.clickhouse:
			size *= 2
		case p == c.postgres:
			size += int64(uploadRows) * rowRoom
		case slices.Contains(c.projectors, p):
			path = filepath.Join(path, "projector")
		case p == c.nats || c.nodes != nil && slices.Contains(c.nodes.processes, p):
		default:
			continue
		}
		if p.disk, err = newDisk(path, size); err != nil {
			return err
		}
	}
	return nil
}

// removeDisks ends the disks. What lies on them is copied first if it is to be
// kept.
func (c *cluster) removeDisks(keep bool) error {
	var errs []error
	for _, p := range c.all() {
		if p.disk == nil {
			continue
		}
		if keep {
			errs = append(errs, p.disk.keep())
		}
		errs = append(errs, p.disk.remove())
	}
	return errors.Join(errs...)
}

// natsURL is where connections are made that no fault cuts.
func (c *cluster) natsURL() string { return natsURL(c.natsAddrs, stream.RoleMillrace) }

// publishURL is where publishers connect.
func (c *cluster) publishURL() string { return c.shared.natsURL(stream.RoleProducer) }

func (c *cluster) all() []*process {
	ps := slices.Concat([]*process{c.clickhouse, c.ingest}, c.projectors, c.schedulers)
	if c.peer == noPeer {
		ps = append(ps, c.postgres, c.otherIngest, c.query)
	}
	if c.nodes != nil {
		return append(ps, c.nodes.processes...)
	}
	return append(ps, c.nats)
}

// run keeps every part running until ctx ends.
func (c *cluster) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range c.all() {
		g.Go(func() error { return p.run(ctx) })
	}
	if c.nodes != nil {
		for _, w := range c.nodes.routes {
			g.Go(func() error { return w.run(ctx) })
		}
	}
	for _, w := range slices.Concat(c.toNATS, c.toClickHouse, c.toPostgres) {
		g.Go(func() error { return w.run(ctx) })
	}
	return g.Wait()
}

// tableSettings changes how the views' tables take inserts, and returns what
// changes them back.
func (c *cluster) tableSettings(settings string) (end func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), recoveryLimit)
	defer cancel()
	var names []string
	for setting := range strings.SplitSeq(settings, ", ") {
		name, _, _ := strings.Cut(setting, " ")
		names = append(names, name)
	}
	all := func(ctx context.Context, change string) error {
		for _, table := range c.tables {
			if err := (database{c.chHTTP}).exec(ctx, "ALTER TABLE "+table+" "+change); err != nil {
				return err
			}
		}
		return nil
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), recoveryLimit)
		defer cancel()
		return all(ctx, "RESET SETTING "+strings.Join(names, ", "))
	}, all(ctx, "MODIFY SETTING "+settings)
}

// owned returns the projector of this owner's name, nil when none has it.
func (c *cluster) owned(owner string) *process {
	for _, p := range c.projectors {
		name, err := os.ReadFile(filepath.Join(c.dir, p.name, "projector", "owner"))
		if err == nil && owner != "" && string(name) == owner {
			return p
		}
	}
	return nil
}

// keys are the folders of a projector's key stores.
func (c *cluster) keys(p *process) []string {
	dirs, _ := filepath.Glob(filepath.Join(c.dir, p.name, "projector", "keys*")) // the pattern is right
	return slices.DeleteFunc(dirs, func(dir string) bool { return strings.Contains(dir, "damaged") })
}

// dropKeys removes the key stores of a projector that is down.
func (c *cluster) dropKeys(p *process) error {
	for _, dir := range c.keys(p) {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

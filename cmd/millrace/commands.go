package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/embedded/engines"
)

type serveCmd struct {
	Role     []string         `help:"Roles to run: ingest, projector, query, scheduler." env:"MILLRACE_ROLE" enum:"ingest,projector,query,scheduler" required:""`
	Data     string           `help:"Folder for the projector's key store, and for the index of items of the role query." env:"MILLRACE_DATA" default:"./data"`
	Groups   uint32           `help:"How many projectors may share the work of a new installation; 0: one. Later, millrace regroup changes it." env:"MILLRACE_SLOT_GROUPS" name:"slot-groups" default:"0" placeholder:"1"`
	Lease    time.Duration    `help:"How long a silent projector keeps its work before one that stands by takes over." env:"MILLRACE_PROJECTOR_LEASE" name:"projector-lease" default:"10s"`
	Await    bool             `help:"Wait until \"millrace migrate\" of this release has brought the tables up to date, and do not do so here." env:"MILLRACE_AWAIT_MIGRATION" name:"await-migration"`
	Pipeline pipelineSettings `embed:"" group:"Pipeline"`
	HTTP     httpSettings     `embed:"" group:"HTTP"`
	Stream   streamSettings   `embed:"" group:"Streams"`
	Shared   sharedSettings   `embed:"" group:"Servers"`
	systemSettings
}

// Run runs the roles until a signal comes.
func (c *serveCmd) Run(p *program) error {
	if err := c.Shared.require(); err != nil {
		return err
	}
	ch, err := c.Shared.clickhouseOptions()
	if err != nil {
		return err
	}
	if slices.Contains(c.Role, "projector") {
		unlock, err := lockData(c.Data, ownEvents)
		if err != nil {
			return err
		}
		defer unlock()
	}
	s := newStack(p.log)
	n, err := newNode(p.log, nodeSettings{
		pipeline: c.Pipeline, http: c.HTTP, data: c.Data, lease: c.Lease, groups: c.Groups, awaits: c.Await,
		clickhouse: ch, topology: c.Shared.topology(), postgres: c.Shared.Postgres, work: c.Stream.work(),
		systemSettings: c.systemSettings, maxAge: c.Stream.MaxAge,
	})
	if err != nil {
		return err
	}
	err = func() error {
		if err := c.Profile.launch(s); err != nil {
			return err
		}
		if err := n.traces(p.ctx, s); err != nil {
			return err
		}
		if n.nats, err = c.Shared.NATSLogin.connect(p.ctx, c.Shared.NATS, c.Data, p.log); err != nil {
			return err
		}
		s.launch("nats connection", closing(n.nats))
		r := c.roles()
		streams := c.Stream.config()
		if r.Projector { // it decides which stages count
			streams.Stages = c.Pipeline.Stages.Stages
		}
		if err := ensureStreams(p.ctx, n.nats, streams); err != nil {
			return err
		}
		return n.run(p.ctx, s, r)
	}()
	if err == nil {
		p.log.Info("serving", "roles", c.Role, "http", c.HTTP.Addr)
		err = s.wait(p.ctx)
	}
	if p.ctx.Err() != nil && errors.Is(err, p.ctx.Err()) {
		err = nil
	}
	return errors.Join(err, s.stop(p.hurry, err))
}

func (c *serveCmd) roles() roles {
	return roles{
		Ingest: slices.Contains(c.Role, "ingest"), Projector: slices.Contains(c.Role, "projector"),
		Query:     slices.Contains(c.Role, "query"),
		Scheduler: slices.Contains(c.Role, "scheduler"),
	}
}

type migrateCmd struct {
	Data   string         `help:"Folder for all data, where \"millrace up\" keeps its login on NATS." env:"MILLRACE_DATA" default:"./data"`
	Stream streamSettings `embed:"" group:"Streams"`
	Shared sharedSettings `embed:"" group:"Servers"`
}

// Run brings streams and tables up to date.
func (c *migrateCmd) Run(p *program) error {
	if err := c.Shared.require(); err != nil {
		return err
	}
	return c.Shared.withServers(p, c.Data, func(in backup.Installation) error {
		if err := ensureStreams(p.ctx, in.NATS, c.Stream.config()); err != nil {
			return err
		}
		if err := migrateClickHouse(p.ctx, in.ClickHouse, c.Shared.topology()); err != nil {
			return err
		}
		if in.Postgres != "" {
			pool, _, err := newPool(in.Postgres, prometheus.NewRegistry(), nil, p.log)
			if err != nil {
				return err
			}
			defer pool.Close()
			if err := migratePostgres(p.ctx, pool, p.log); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(p.out, "streams and tables are up to date")
		return err
	})
}

type enginesCmd struct{}

// Run installs the engines that are not there yet.
func (enginesCmd) Run(p *program) error {
	if err := engines.Install(p.ctx, p.errOut); err != nil {
		return err
	}
	dir, err := engines.Dir()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.out, dir)
	return err
}

// lockFile is locked by the process that uses the data folder, and names it.
const lockFile = "LOCK"

// lockData makes the data folder and holds it for this process alone, and for
// one purpose.
func lockData(dir string, use purpose) (unlock func(), err error) {
	private()
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if err := closeFolders(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w: set MILLRACE_DATA to a folder that can be written", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32)) // who holds it is told if known
		return nil, errors.Join(fmt.Errorf("the data folder %s is in use by another millrace (process %s): stop it, "+
			"or set MILLRACE_DATA to another folder",
			dir, orDefault(string(holder), "unknown")), f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder: %w", err), f.Close())
	}
	if _, err := fmt.Fprint(f, os.Getpid()); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder: %w", err), f.Close())
	}
	if err := errors.Join(whole(dir), claim(dir, use)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// parseLog turns a JSON line of a child's log into a message of this one's.
func parseLog(line string) (slog.Level, string) {
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		return slog.LevelInfo, line
	}
	var level slog.Level
	text, _ := fields["level"].(string)
	if level.UnmarshalText([]byte(text)) != nil {
		level = slog.LevelInfo
	}
	msg, _ := fields["msg"].(string)
	for _, name := range []string{"time", "level", "msg"} {
		delete(fields, name)
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(msg)
	for _, name := range names {
		fmt.Fprintf(&b, " %s=%v", name, fields[name])
	}
	return level, b.String()
}

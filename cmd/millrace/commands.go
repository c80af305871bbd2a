package main

import (
	"bufio"
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

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/term"

	"github.com/millrace-io/millrace/ingest/emit"
	chserver "github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/engines"
)

type serveCmd struct {
	Role      []string          `help:"Roles to run: ingest, projector, query." env:"MILLRACE_ROLE" enum:"ingest,projector,query" required:""`
	Data      string            `help:"Folder for the projector's key store." env:"MILLRACE_DATA" default:"./data"`
	Groups    uint32            `help:"How many projectors may share the work, for the first start; millrace regroup changes it." env:"MILLRACE_SLOT_GROUPS" name:"slot-groups" default:"0" placeholder:"1"`
	Lease     time.Duration     `help:"How long a projector that shows no sign of life keeps its work before one that stands by takes over." env:"MILLRACE_PROJECTOR_LEASE" name:"projector-lease" default:"10s"`
	Pipeline  pipelineSettings  `embed:"" group:"Pipeline"`
	HTTP      httpSettings      `embed:"" group:"HTTP"`
	Stream    streamSettings    `embed:"" group:"Streams"`
	Shared    sharedSettings    `embed:"" group:"Servers"`
	Retention retentionSettings `embed:"" group:"Retention"`
	Profile   profileSettings   `embed:"" group:"Diagnosis"`
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
		unlock, err := lockData(c.Data)
		if err != nil {
			return err
		}
		defer unlock()
	}
	limitMemory()
	s := newStack(p.log)
	n := newNode(p.log, c.Pipeline, c.HTTP, c.Data)
	n.clickhouse, n.lease, n.groups, n.postgres = ch, c.Lease, c.Groups, c.Shared.Postgres
	n.work, n.maxAge = c.Stream.work(), c.Stream.MaxAge
	n.layout, n.retention = c.Shared.layout(), c.Retention
	err = func() error {
		if err := c.Profile.launch(s); err != nil {
			return err
		}
		if n.nats, err = connect(p.ctx, c.Shared.NATS, p.log); err != nil {
			return err
		}
		s.launch("nats connection", closing(n.nats))
		r := c.roles()
		tables := ch
		if !r.Projector && !r.Query { // events are taken in while ClickHouse is away
			tables = nil
		}
		if err := migrate(p.ctx, n.nats, tables, n.layout, c.Stream.config()); err != nil {
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
		Ingest: slices.Contains(c.Role, "ingest"), Projector: slices.Contains(c.Role, "projector"), Query: slices.Contains(c.Role, "query"),
	}
}

type clickhouseCmd struct {
	Data   string           `help:"Folder for all data." env:"MILLRACE_DATA" default:"./data"`
	Server clickhouseServer `embed:""`
}

// Run serves the engine until a signal comes.
func (c *clickhouseCmd) Run(p *program) error {
	if err := c.Server.check(); err != nil {
		return err
	}
	library, err := engines.ClickHouse()
	if err != nil {
		return err
	}
	srv, err := chserver.New(chserver.Config{
		Library: library, Path: filepath.Join(c.Data, "clickhouse"), Listen: c.Server.Listen, HTTPListen: c.Server.HTTP,
		Password: c.Server.Password, ReadOnlyPassword: c.Server.AnalystPassword, MaxMemory: c.Server.MaxMemory,
	}, p.log)
	if err != nil {
		return err
	}
	return srv.Run(p.ctx)
}

type migrateCmd struct {
	Stream streamSettings `embed:"" group:"Streams"`
	Shared sharedSettings `embed:"" group:"Servers"`
}

// Run brings streams and tables up to date.
func (c *migrateCmd) Run(p *program) error {
	if err := c.Shared.require(); err != nil {
		return err
	}
	ch, err := c.Shared.clickhouseOptions()
	if err != nil {
		return err
	}
	nc, err := connect(p.ctx, c.Shared.NATS, p.log)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := migrate(p.ctx, nc, ch, c.Shared.layout(), c.Stream.config()); err != nil {
		return err
	}
	if c.Shared.Postgres != "" {
		pool, err := openPostgres(c.Shared.Postgres, prometheus.NewRegistry())
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := migratePostgres(p.ctx, pool); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(p.out, "streams and tables are up to date")
	return err
}

type emitCmd struct {
	File     string           `arg:"" help:"File of JSON lines, or - for standard input."`
	NATS     string           `help:"URL of the NATS server." env:"MILLRACE_NATS_URL" name:"nats-url" default:"nats://127.0.0.1:4222"`
	InFlight int              `help:"Batches under way at once." default:"4"`
	Rejects  string           `help:"File to write rejected lines to." type:"path" placeholder:"FILE"`
	Pipeline pipelineSettings `embed:"" group:"Pipeline"`
}

// Run publishes the lines. Rejected lines are no failure: they are reported.
func (c *emitCmd) Run(p *program) (err error) {
	nc, err := connect(
		p.ctx, c.NATS, p.log, nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { p.log.Warn("NATS reports", "error", err) }),
	)
	if err != nil {
		return err
	}
	defer nc.Close()
	if !nc.IsConnected() {
		p.log.Warn("NATS does not answer yet; waiting for it")
	}
	cfg := emit.Config{NATS: nc, Stages: c.Pipeline.Stages.Stages, InFlight: c.InFlight, Errors: p.errOut, Log: p.log}
	in := p.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			cfg.Size = info.Size()
		}
		in = f
	}
	if c.Rejects != "" {
		f, err := os.Create(c.Rejects)
		if err != nil {
			return err
		}
		w := bufio.NewWriter(f)
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
		cfg.Rejects = w
	}
	if f, ok := p.errOut.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		cfg.Progress = f
	}
	report, err := emit.Run(p.ctx, in, cfg)
	_, printErr := fmt.Fprintln(p.out, report)
	return errors.Join(err, printErr)
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

// makeDir makes a folder that other users may pass through but not read:
// Postgres may run as one of them.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("make the data folder: %w: set MILLRACE_DATA to a folder that can be written", err)
	}
	return nil
}

// lockData makes the data folder and holds it for this process alone.
func lockData(dir string) (unlock func(), err error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w: set MILLRACE_DATA to a folder that can be written", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32)) // who holds it is told if known
		return nil, errors.Join(fmt.Errorf("the data folder %s is in use by another millrace (process %s): stop it, or set MILLRACE_DATA to another folder",
			dir, orDefault(string(holder), "unknown")), f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder: %w", err), f.Close())
	}
	if _, err := fmt.Fprint(f, os.Getpid()); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder: %w", err), f.Close())
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

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
	"github.com/millrace-io/millrace/ingest/emit"
)

type emitCmd struct {
	File     string           `arg:"" help:"File of JSON lines, or - for standard input."`
	NATS     string           `help:"URL of the NATS server." env:"MILLRACE_NATS_URL" name:"nats-url" default:"nats://127.0.0.1:4222"`
	Wait     time.Duration    `help:"How long to wait for NATS while it does not answer; 0: for ever." env:"MILLRACE_EMIT_WAIT" default:"1m"`
	InFlight int              `help:"Batches under way at once." default:"4"`
	Login    natsLogin        `embed:"" group:"NATS"`
	Rejects  string           `help:"File to write rejected lines to." type:"path" placeholder:"FILE"`
	Pipeline pipelineSettings `embed:"" group:"Pipeline, for an installation that has not published its stages"`
}

// Validate makes a wait that is none bad usage.
func (c *emitCmd) Validate() error {
	if c.Wait < 0 {
		return errors.New("--wait: must not be negative")
	}
	return nil
}

// Run publishes the lines. Its exit status tells whether all were taken.
func (c *emitCmd) Run(p *program) error {
	report, err := c.emit(p)
	switch {
	case err != nil:
		return p.interrupted(err, againCountsOnce)
	case report.Rejected > 0:
		return &statusError{fmt.Errorf("%d of %d lines were rejected", report.Rejected, report.Lines()), statusPartial}
	}
	return nil
}

func (c *emitCmd) emit(p *program) (report emit.Report, err error) {
	cfg := emit.Config{InFlight: c.InFlight, Wait: c.Wait, Errors: p.errOut, Log: p.log}
	in := p.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return report, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			cfg.Size = info.Size()
		}
		in = f
	}
	if cfg.NATS, err = c.connect(p); err != nil {
		return report, err
	}
	defer cfg.NATS.Close()
	if cfg.Stages, err = c.Pipeline.installed(p.ctx, cfg.NATS, p.log); err != nil {
		return report, err
	}
	if c.Rejects != "" {
		f, err := os.Create(c.Rejects)
		if err != nil {
			return report, err
		}
		w := bufio.NewWriter(f)
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
		cfg.Rejects = w
	}
	if console.IsTerminal(p.errOut) {
		cfg.Progress = p.errOut
	}
	report, err = emit.Run(p.ctx, in, cfg)
	_, printErr := fmt.Fprintln(p.out, report)
	return report, errors.Join(err, printErr)
}

// connect waits for a NATS that is away, and says so at once.
func (c *emitCmd) connect(p *program) (*nats.Conn, error) {
	login, err := client.Login(c.Login).Options()
	if err != nil {
		return nil, err
	}
	// A connection to a server that is silent, other than one to where there is
	// none, takes its time to fail.
	silent := time.AfterFunc(time.Second, func() { tellAway(p.log, c.NATS, c.Wait, nil) })
	defer silent.Stop()
	nc, err := connect(p.ctx, c.NATS, p.log, login...)
	switch {
	case err == nil || p.ctx.Err() != nil || errors.Is(err, nats.ErrAuthorization) || errors.Unwrap(err) == nil:
		return nc, err
	case silent.Stop():
		tellAway(p.log, c.NATS, c.Wait, errors.Unwrap(err))
	}
	if nc, err = connect(p.ctx, c.NATS, p.log, append(login, nats.RetryOnFailedConnect(true))...); err != nil {
		return nil, err
	}
	if err := await(p.ctx, nc, c.NATS, c.Wait); err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

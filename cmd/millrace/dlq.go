package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
	"github.com/millrace-io/millrace/ingest/dlq"
)

type dlqCmd struct {
	List   dlqListCmd   `cmd:"" default:"withargs" help:"List dead letters."`
	Show   dlqShowCmd   `cmd:"" help:"Show one dead letter with its headers and its body."`
	Replay dlqReplayCmd `cmd:"" help:"Publish the messages of dead letters again, and delete these letters. Letters that would be refused again stay and are reported."`
	Purge  dlqPurgeCmd  `cmd:"" help:"Delete dead letters for good."`
}

// AfterApply has the commands work on NATS where its address is given, and over HTTP
// otherwise. A flag decides before the environment and the configuration file do.
func (c *dlqCmd) AfterApply(command *kong.Context) error {
	http, onNATS := givenBy(command, "url"), givenBy(command, "nats-url")
	if http == byFlag && onNATS == byFlag {
		return errors.New("--url: must be left out with --nats-url")
	}
	for _, d := range []*dlqSettings{&c.List.Server, &c.Show.Server, &c.Replay.Server, &c.Purge.Server} {
		d.onNATS = onNATS > http
	}
	return nil
}

// giver is what gives a setting its value.
type giver int

const (
	byDefault giver = iota
	bySetting       // the environment or the configuration file
	byFlag
)

func givenBy(command *kong.Context, name string) giver {
	by := byDefault
	for _, part := range command.Path {
		switch {
		case part.Flag == nil || part.Flag.Name != name:
		case part.Resolved:
			by = bySetting
		default:
			return byFlag
		}
	}
	for _, flag := range command.Flags() {
		for _, env := range flag.Envs {
			if _, set := os.LookupEnv(env); set && flag.Name == name {
				by = bySetting
			}
		}
	}
	return by
}

// dlqSettings are those of every command.
type dlqSettings struct {
	HTTP   console.Server `embed:"" group:"Server"`
	NATS   natsCommand    `embed:"" group:"NATS"`
	JSON   bool           `help:"Print JSON."`
	onNATS bool           // rather than over HTTP
}

// letters are the dead letters of an installation.
type letters interface {
	List(context.Context, dlq.ListOptions) (dlq.LetterPage, error)
	Show(ctx context.Context, id string) (dlq.LetterDetail, error)
	Replay(context.Context, dlq.Selection, dlq.ReplayOptions) (dlq.LetterReport, error)
	Purge(ctx context.Context, sel dlq.Selection, dryRun bool) (dlq.LetterReport, error)
}

// with runs work on the letters of the installation. On NATS, work that judges events
// says by which stages, where the installation does not.
func (d dlqSettings) with(p *program, stages stages, work func(letters) error) error {
	if !d.onNATS {
		return work(console.DeadLetters{Server: d.HTTP})
	}
	nc, err := d.NATS.connect(p)
	if err != nil {
		return err
	}
	defer nc.Close()
	if len(stages.Names()) > 0 {
		if stages.Stages, err = (pipelineSettings{stages}).installed(p.ctx, nc, p.log); err != nil {
			return err
		}
	}
	s, err := dlq.New(dlq.Config{Stages: stages.Stages}, nc, p.log)
	if err != nil {
		return err
	}
	return work(s)
}

// dlqFilter selects letters.
type dlqFilter struct {
	Stream  string         `help:"Only letters of messages that came from this stream." placeholder:"EVENTS"`
	Code    string         `help:"Only letters that break this rule." placeholder:"stage_unknown"`
	Field   string         `help:"Only letters in which this field breaks a rule." placeholder:"stage"`
	Subject string         `help:"Only letters of messages that came on this subject; * and > are wildcards as in NATS." placeholder:"events.crawled.*"`
	Since   console.Moment `help:"Only letters of messages that their stream received at or after this time: RFC 3339, or a duration before now." placeholder:"24h"`
	Until   console.Moment `help:"Only letters of messages that their stream received before this time." placeholder:"2026-02-10T00:00:00Z"`
}

func (f dlqFilter) filter() dlq.Filter {
	return dlq.Filter{
		Stream: f.Stream, Code: f.Code, Field: f.Field, Subject: f.Subject, Since: f.Since.Time,
		Until: f.Until.Time,
	}
}

type dlqListCmd struct {
	dlqFilter
	Server dlqSettings `embed:""`
	Oldest bool        `help:"List the oldest first. The default is the newest first."`
	Limit  int         `help:"How many letters at most; 0: all." default:"100"`
}

// Validate makes a wrong filter bad usage.
func (c *dlqListCmd) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit: must not be negative")
	}
	return usageOf(c.filter().Check())
}

// Run lists letters.
func (c *dlqListCmd) Run(p *program) error {
	return c.Server.with(p, stages{}, func(s letters) error {
		out := newLetterPrinter(p.out, c.Server.JSON)
		left := c.Limit
		o := dlq.ListOptions{Filter: c.filter(), Oldest: c.Oldest}
		for {
			if o.Limit = dlq.MaxPage; c.Limit > 0 {
				o.Limit = min(left, dlq.MaxPage)
			}
			page, err := s.List(p.ctx, o)
			if err != nil {
				return err
			}
			if err := out.letters(page.Letters); err != nil {
				return err
			}
			left -= len(page.Letters)
			o.Cursor = page.NextCursor
			if o.Cursor == 0 || (c.Limit > 0 && left == 0) {
				return out.end(o.Cursor != 0)
			}
		}
	})
}

type dlqShowCmd struct {
	ID     string      `arg:"" help:"The letter's number, or its message's stream and sequence: EVENTS/123."`
	Server dlqSettings `embed:""`
}

// Validate makes a wrong id bad usage.
func (c *dlqShowCmd) Validate() error { return usageOf(dlq.CheckID(c.ID)) }

// Run shows a letter.
func (c *dlqShowCmd) Run(p *program) error {
	return c.Server.with(p, stages{}, func(s letters) error {
		letter, err := s.Show(p.ctx, c.ID)
		if err != nil {
			return err
		}
		if c.Server.JSON {
			return console.PrintJSON(p.out, letter)
		}
		return printLetter(p.out, letter)
	})
}

// dlqSelection names the letters of a replay or a purge.
type dlqSelection struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Letters, each by its number or by its message's stream and sequence: EVENTS/123."`
	dlqFilter
	All    bool        `help:"All letters."`
	DryRun bool        `help:"Only say what would be done."`
	Server dlqSettings `embed:""`
}

func (c *dlqSelection) selection() dlq.Selection {
	return dlq.Selection{IDs: c.IDs, Filter: c.filter(), All: c.All}
}

// Validate makes a selection of nothing, or of two kinds, bad usage.
func (c *dlqSelection) Validate() error { return usageOf(c.selection().Check()) }

// run works on the selection, call by call, and reports all of them as one.
func (c *dlqSelection) run(
	p *program, stages stages, call func(letters, dlq.Selection) (dlq.LetterReport, error),
) error {
	return c.Server.with(p, stages, func(s letters) error {
		sel, total := c.selection(), dlq.NewReport(c.DryRun)
		var err error
		for {
			var r dlq.LetterReport
			r, err = call(s, sel)
			total.Add(r)
			if err != nil || r.NextCursor == "" {
				break
			}
			if sel.Cursor, err = dlq.ParseCursor(r.NextCursor); err != nil {
				break
			}
		}
		var printErr error
		if c.Server.JSON {
			printErr = console.PrintJSON(p.out, total)
		} else {
			printErr = printReport(p.out, total)
		}
		if err == nil && len(total.Missing) > 0 {
			err = fmt.Errorf("there are no dead letters %s", strings.Join(total.Missing, ", "))
		}
		return errors.Join(err, printErr)
	})
}

type dlqReplayCmd struct {
	dlqSelection
	AsBackfill bool             `help:"Mark events older than 24 hours as backfilled, so that they are accepted."`
	Pipeline   pipelineSettings `embed:"" group:"Pipeline"`
}

// Run replays letters. Those that stay are no failure: they are reported.
func (c *dlqReplayCmd) Run(p *program) error {
	return c.run(p, c.Pipeline.Stages, func(s letters, sel dlq.Selection) (dlq.LetterReport, error) {
		return s.Replay(p.ctx, sel, dlq.ReplayOptions{DryRun: c.DryRun, AsBackfill: c.AsBackfill})
	})
}

type dlqPurgeCmd struct{ dlqSelection }

// Run purges letters.
func (c *dlqPurgeCmd) Run(p *program) error {
	return c.run(p, stages{}, func(s letters, sel dlq.Selection) (dlq.LetterReport, error) {
		return s.Purge(p.ctx, sel, c.DryRun)
	})
}

// usageOf names flags as the command line does.
func usageOf(err error) error {
	var invalid *dlq.Invalid
	switch {
	case !errors.As(err, &invalid):
		return err
	case invalid.Code == "selection":
		return errors.New("say which letters are meant, in one way: their ids, filters, or --all")
	case invalid.Field == "id" || invalid.Field == "ids":
		return fmt.Errorf("<id>: %s", invalid.Rule)
	}
	return fmt.Errorf("--%s: %s", invalid.Field, invalid.Rule)
}

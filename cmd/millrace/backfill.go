package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
	"github.com/millrace-io/millrace/ingest/backfill"
	"github.com/millrace-io/millrace/ingest/history"
)

// historySettings name the databases in which services keep their history.
type historySettings struct {
	Crawler    string `help:"Postgres of the crawler, which has job_executions." env:"MILLRACE_CRAWLER_DSN" name:"crawler-dsn" placeholder:"DSN"`
	Classifier string `help:"Postgres of the classifier, which has classification_history." env:"MILLRACE_CLASSIFIER_DSN" name:"classifier-dsn" placeholder:"DSN"`
	Publisher  string `help:"Postgres of the publisher, which has publish_history." env:"MILLRACE_PUBLISHER_DSN" name:"publisher-dsn" placeholder:"DSN"`
}

// open opens the tables whose databases are named, of some services or all.
func (s historySettings) open(
	ctx context.Context, services []string,
) (sources []*history.Source, closeAll func(), err error) {
	closeAll = func() {
		for _, src := range sources {
			src.Close()
		}
	}
	dsns := map[string]string{"crawler": s.Crawler, "classifier": s.Classifier, "publisher": s.Publisher}
	for _, table := range history.Tables() {
		dsn := dsns[table.Service]
		switch {
		case len(services) > 0 && !slices.Contains(services, table.Service):
			continue
		case dsn == "" && len(services) > 0:
			return nil, closeAll, fmt.Errorf("set MILLRACE_%s_DSN to the database that has %s",
				strings.ToUpper(table.Service), table.Name)
		case dsn == "":
			continue
		}
		src, err := history.Open(ctx, dsn, table)
		if err != nil {
			closeAll()
			return nil, func() {}, err
		}
		sources = append(sources, src)
	}
	if len(sources) == 0 {
		return nil, closeAll, errors.New("set MILLRACE_CRAWLER_DSN, MILLRACE_CLASSIFIER_DSN or " +
			"MILLRACE_PUBLISHER_DSN to a database with a service's history")
	}
	return sources, closeAll, nil
}

// countedSettings name what Millrace has counted.
type countedSettings struct {
	ClickHouse string `help:"DSN of Millrace's ClickHouse; the login analyst is enough." env:"MILLRACE_CLICKHOUSE_DSN" name:"clickhouse-dsn" default:"clickhouse://analyst@127.0.0.1:9000/millrace"`
}

func (s countedSettings) open() (*history.EventsTable, error) {
	o, err := clickhouse.ParseDSN(s.ClickHouse)
	if err != nil {
		return nil, fmt.Errorf("MILLRACE_CLICKHOUSE_DSN: %w", err)
	}
	return history.OpenEvents(o)
}

type backfillCmd struct {
	Services []string         `arg:"" optional:"" name:"service" enum:"crawler,classifier,publisher" help:"Service whose history to publish: crawler, classifier or publisher. Default: all whose database is named."`
	History  historySettings  `embed:"" group:"Databases"`
	Counted  countedSettings  `embed:"" group:"Databases"`
	NATS     natsCommand      `embed:"" group:"NATS"`
	From     console.Moment   `help:"Only rows from this time on: RFC 3339, or a duration before now."`
	Until    console.Moment   `help:"Only rows before this time. Default: for each stage, the time of its first live event in ClickHouse."`
	Batch    int              `help:"Events published at once, at most 1000." default:"500"`
	InFlight int              `help:"Batches under way at once." default:"4"`
	Delay    time.Duration    `help:"Time between two batches, such as 100ms; 0: none." env:"MILLRACE_BACKFILL_DELAY" default:"0"`
	DryRun   bool             `help:"Read and judge everything, and publish nothing."`
	Restart  bool             `help:"Begin at the beginning instead of where the last run stopped."`
	Pipeline pipelineSettings `embed:"" group:"Pipeline"`
}

// Run backfills one table after another. Rows that become no event are no
// failure: they are reported.
func (c *backfillCmd) Run(p *program) error { return p.interrupted(c.backfill(p), againCountsOnce) }

func (c *backfillCmd) backfill(p *program) error {
	sources, closeAll, err := c.History.open(p.ctx, c.Services)
	if err != nil {
		return err
	}
	defer closeAll()
	cfg := backfill.Config{
		Stages: c.Pipeline.Stages.Stages, From: c.From.Time, Batch: c.Batch, InFlight: c.InFlight, Delay: c.Delay,
		DryRun: c.DryRun, Restart: c.Restart, Now: time.Now(), Errors: p.errOut, Log: p.log,
	}
	if console.IsTerminal(p.errOut) {
		cfg.Progress = p.errOut
	}
	var nc *nats.Conn
	if !c.DryRun {
		if nc, err = c.NATS.connect(p); err != nil {
			return err
		}
		defer nc.Close()
		if cfg.Stages, err = c.Pipeline.installed(p.ctx, nc, p.log); err != nil {
			return err
		}
	}
	if cfg.Until, err = c.until(p.ctx, cfg); err != nil {
		return err
	}
	b, err := backfill.New(p.ctx, cfg, nc)
	if err != nil {
		return err
	}
	for _, src := range sources {
		report, err := b.Run(p.ctx, src)
		if _, printErr := fmt.Fprintln(p.out, report); err != nil || printErr != nil {
			return errors.Join(err, printErr)
		}
	}
	return nil
}

// until returns when rows are left out from, by stage.
func (c *backfillCmd) until(ctx context.Context, cfg backfill.Config) (map[string]time.Time, error) {
	if !c.Until.IsZero() {
		until := map[string]time.Time{}
		for _, stage := range cfg.Stages.Names() {
			until[stage] = c.Until.Time
		}
		return until, nil
	}
	table, err := c.Counted.open()
	if err != nil {
		return nil, err
	}
	defer table.Close()
	first, err := table.FirstLive(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w; set MILLRACE_CLICKHOUSE_DSN, or say with --until where live events begin", err)
	}
	return first, nil
}

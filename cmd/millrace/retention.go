package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/projector/pipeline/aging"
	"github.com/millrace-io/millrace/projector/pipeline/retention"
	"github.com/millrace-io/millrace/projector/pipeline/subjects"
)

// retentionSettings are the retention of each kind of data.
type retentionSettings struct {
	Months      int `help:"Whole months for which single events are kept, at least 2; older ones are summarized by day and by month. 0: for ever." env:"MILLRACE_RETENTION_MONTHS" name:"retention-months" default:"6"`
	DailyMonths int `help:"Whole months for which summaries by day are kept; those by month always are. 0: for ever." env:"MILLRACE_RETENTION_DAILY_MONTHS" name:"retention-daily-months" default:"0"`

	Shards time.Duration `help:"How long finished files of shards are kept with their history, since their last change. 0: for ever." env:"MILLRACE_SHARDS_RETENTION" name:"shards-retention" default:"0"`
}

// runAging removes old events from the stream, beside the projector.
func (n *node) runAging(s *stack) error {
	js, err := jetstream.New(n.nats)
	if err != nil {
		return err
	}
	k, err := aging.New(aging.Config{MaxAge: n.maxAge}, js, n.log)
	if err != nil {
		return err
	}
	s.launch("aging", k.Run)
	return nil
}

// runSubjects bounds the subjects of the stream, beside the projector.
func (n *node) runSubjects(s *stack) error {
	js, err := jetstream.New(n.nats)
	if err != nil {
		return err
	}
	g, err := subjects.New(subjects.Config{Stages: n.pipeline.Stages.Names()}, js, n.log)
	if err != nil {
		return err
	}
	s.launch("subjects", g.Run)
	return n.sample(g.Gauges())
}

// runRetention retires old events, beside the projector.
func (n *node) runRetention(s *stack, r roles) error {
	js, err := jetstream.New(n.nats)
	if err != nil {
		return err
	}
	opts, cut := dbpool.Cuttable(n.clickhouse)
	pool, err := clickhouse.Open(opts)
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	conn, err := dbpool.ClickHouse(pool, n.registry, "retention")
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	k, err := retention.New(retention.Config{
		Months: n.retention.Months, DailyMonths: n.retention.DailyMonths, Topology: n.topology,
	}, conn, js, n.registry, n.log)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	s.launch("retention", func(ctx context.Context) error {
		// A retirement that is under way is done again at the next start.
		defer context.AfterFunc(ctx, cut)()
		return errors.Join(k.Run(ctx), conn.Close())
	})
	if !r.Query { // whose own check asks for the same
		n.also = append(n.also, httpapi.Check{Name: "clickhouse", Probe: conn.Ping, Need: httpapi.Never})
	}
	return n.sample(k.Rows())
}

package main

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/millrace-io/millrace/client"
	ingesthttp "github.com/millrace-io/millrace/ingest/http"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/lag"
	"github.com/millrace-io/millrace/internal/sampler"
	projector "github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/projector/pipeline/retention"
	"github.com/millrace-io/millrace/query/pipeline"
	"github.com/millrace-io/millrace/schemas/stream"
)

// takeEvents takes events in over HTTP.
func (n *node) takeEvents() (of share, err error) {
	publisher, err := client.New(n.nats, client.Config{Service: "millrace", Acked: n.acked(), Log: n.log})
	if err != nil {
		return of, err
	}
	in, err := ingesthttp.New(ingesthttp.Config{Limits: n.http.Limits.ingest()}, ingesthttp.Deps{
		Log: n.log, Registry: n.registry, Publisher: publisher, Stages: n.pipeline.Stages.Stages,
	})
	if err != nil {
		return of, err
	}
	return share{routes: []func(endpoint.API){in.Register}}, nil
}

// foldEvents folds the stream of events, and retires old months.
func (n *node) foldEvents() (of share, err error) {
	p, err := projector.New(projector.Config{
		Stages: n.pipeline.Stages.Stages, Dir: n.projectorFolder(), Lease: n.lease, SlotGroups: n.groups,
		Backlog:     n.collector.backlog,
		StreamLost:  func() string { return n.integrity.Lost(stream.Events).String() },
		StreamSkips: func() { n.integrity.Suspect(stream.Events) },
		Tracer:      n.tracer,
		Slow:        n.slow,
	}, n.nats, n.clickhouse, n.registry, n.log)
	if err != nil {
		return of, err
	}
	conn, err := n.openClickHouse("retention")
	if err != nil {
		return of, err
	}
	retired, err := retention.New(retention.Config{
		Months: n.Retention.Months, DailyMonths: n.Retention.DailyMonths, Topology: n.topology,
	}, conn, n.js, n.registry, n.log)
	if err != nil {
		return of, err
	}
	of.clickhouse = true
	of.parts = []part{{"projector", p.Run}, {"retention", retired.Run}}
	of.gauges = append(of.gauges, n.lagGauges(p.Unfolded), retired.Rows())
	of.checks = []httpapi.Check{{Name: "positions", Probe: func(context.Context) error { return p.Damage() }}}
	if !n.roles.Query { // whose own check asks for the same
		of.checks = append(of.checks, httpapi.Check{
			Name: "clickhouse", Need: httpapi.AtFirst,
			Probe: func(ctx context.Context) error { return cmp.Or(conn.Ping(ctx), n.clickhouseTables.err()) },
		})
	}
	return of, nil
}

// keepStream removes folded events from the stream when they are old, bounds its subjects, and makes streams again that
// are gone.
func (n *node) keepStream() (of share, err error) {
	aged, err := retention.NewAging(retention.AgingConfig{MaxAge: n.maxAge}, n.js, n.log)
	if err != nil {
		return of, err
	}
	bounded, err := projector.NewSubjects(projector.SubjectsConfig{Stages: n.pipeline.Stages.Names()}, n.js, n.log)
	if err != nil {
		return of, err
	}
	return share{
		parts:  []part{{"aging", aged.Run}, {"subjects", bounded.Run}, {"streams", n.mendStreams}},
		gauges: []sampler.Source{bounded.Gauges()},
	}, nil
}

// readEvents serves the funnel and what else is known of events.
func (n *node) readEvents() (of share, err error) {
	q, err := pipeline.New(pipeline.Config{Stages: n.pipeline.Stages.Stages, Gaps: n.http.Limits.Gaps},
		pipeline.Deps{ClickHouse: n.reads, NATS: n.nats, JetStream: n.js, Log: n.log, Registry: n.registry, Tracer: n.tracer})
	if err != nil {
		return of, err
	}
	of = share{
		clickhouse: true,
		parts:      []part{{"funnel", q.Run}},
		routes:     []func(endpoint.API){q.Register},
		views:      q.Views(),
		checks:     q.Checks(),
		warnings:   q.Warnings,
		gauges:     []sampler.Source{lag.MirrorSource(q.Positions, n.js), q.Gauges()},
	}
	if n.roles.Ingest {
		spare(of.checks)
	}
	if !n.roles.Projector { // which knows more of it
		of.gauges = append(of.gauges, n.lagGauges(nil))
	}
	return of, nil
}

// spare has a process that takes events in be ready without what only queries need: it goes on doing so while that
// is away, and so a balancer has to leave it where it is. That it has all it was started for is checked once.
func spare(checks []httpapi.Check) {
	for i := range checks {
		if checks[i].Need == httpapi.Always {
			checks[i].Need = httpapi.AtFirst
		}
	}
}

// lagGauges tell how far behind the stream of events the projectors are. unfolded returns the slot groups that this
// process holds and does not fold.
func (n *node) lagGauges(unfolded func() map[uint32]lag.Reason) sampler.Source {
	return lag.Source(lag.Config{Lease: cmp.Or(n.lease, projector.DefaultLease), Unfolded: unfolded}, n.js)
}

// projectorFolder is where the projector has its key store.
func (n *node) projectorFolder() string { return filepath.Join(n.data, "projector") }

package main

import (
	"context"

	ingestacts "github.com/millrace-io/millrace/ingest/acts"
	"github.com/millrace-io/millrace/ingest/queues"
	"github.com/millrace-io/millrace/ingest/shards"
	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/projector/work"
	queryacts "github.com/millrace-io/millrace/query/acts"
	"github.com/millrace-io/millrace/query/live"
	queryqueues "github.com/millrace-io/millrace/query/queues"
	queryshards "github.com/millrace-io/millrace/query/shards"
	"github.com/millrace-io/millrace/query/views"
)

// openQueues makes the queues of all systems, and those that users define.
func (n *node) openQueues() (err error) {
	n.stores.queues, err = queue.New(
		queue.Config{Kinds: []queue.Kind{tracking.Kind{}, &userqueue.Kind{}}, Tracer: n.tracer}, n.database.pool, n.log,
	)
	if err != nil {
		return err
	}
	if n.stores.own, err = userqueue.NewPaced(n.stores.queues, n.Uploads.Pacing.pacing()); err != nil || !n.roles.Ingest {
		return err
	}
	n.stores.handout, err = handout.New(n.nats, n.stores.queues, n.work)
	return err
}

// serveQueues hands items out, and takes what is said of them. Daemons' answers come in here as commands over HTTP do.
func (n *node) serveQueues() (of share, err error) {
	service, err := work.New(work.Config{Streams: n.work}, work.Deps{
		NATS: n.nats, Store: n.stores.queues, Handout: n.stores.handout, Shards: n.stores.shards,
		Tracer: n.tracer, Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	reports, err := userqueue.NewReports(n.stores.own, n.stores.handout)
	if err != nil {
		return of, err
	}
	commands, err := queues.New(n.stores.own, n.stores.handout, n.log)
	if err != nil {
		return of, err
	}
	return share{
		parts: []part{
			{"leases", n.stores.queues.Run},
			{"work", service.Run},
			{"additions", func(ctx context.Context) error { return n.stores.own.Serve(ctx, n.nats, n.log) }},
			{"reports", func(ctx context.Context) error { return reports.Serve(ctx, n.nats, n.log) }},
			{"retention", func(ctx context.Context) error { return n.stores.own.Run(ctx, n.log) }},
		},
		routes: []func(endpoint.API){commands.Register},
	}, nil
}

// readQueues tells of user-defined queues, and has the live view of all queues.
func (n *node) readQueues() (of share, err error) {
	return share{
		routes: []func(endpoint.API){queryqueues.New(live.TransitionsConfig{}, n.stores.own, n.stores.uploads).Register},
		views:  []live.View{views.QueuesOf(n.stores.queues)},
		gauges: []sampler.Source{views.QueueGauges(n.stores.queues)},
	}, nil
}

// openShards makes the store of files and their shards. Bulk actions on items are about both kinds.
func (n *node) openShards() (err error) {
	n.stores.shards, err = tracking.New(tracking.Config{Keep: n.Retention.Shards}, n.stores.queues, n.log)
	if err == nil {
		n.stores.items = items.New(n.stores.own, n.stores.shards)
		n.stores.acts.Add(n.stores.items)
	}
	return err
}

// takeShards takes files in, and what becomes of their shards.
func (n *node) takeShards() (of share, err error) {
	return share{
		parts:  []part{{"retention", n.stores.shards.Run}},
		routes: []func(endpoint.API){shards.New(n.stores.shards, n.stores.handout).Register},
	}, nil
}

// readShards tells of files and their shards.
func (n *node) readShards() (of share, err error) {
	return share{
		routes: []func(endpoint.API){queryshards.New(queryshards.Config{}, n.stores.shards).Register},
		gauges: []sampler.Source{queryshards.Gauges(n.stores.shards)},
	}, nil
}

// openActs makes the store of bulk actions.
func (n *node) openActs() (err error) {
	n.stores.acts, err = acts.New(n.stores.queues, n.log)
	return err
}

// runActs begins bulk actions, and carries them out.
func (n *node) runActs() (of share, err error) {
	return share{
		parts:  []part{{"actions", n.stores.acts.Run}},
		routes: []func(endpoint.API){ingestacts.New(n.stores.acts, n.stores.recrawl).Register},
	}, nil
}

// readActs tells of bulk actions.
func (n *node) readActs() (of share, err error) {
	return share{routes: []func(endpoint.API){
		queryacts.New(n.stores.acts, n.stores.items, n.stores.uploads).Register,
	}}, nil
}

// limitReaders bounds what logins that only read may ask of Postgres.
func (n *node) limitReaders() (of share, err error) {
	readers, err := dbpool.NewWatchdog(dbpool.WatchdogConfig{}, n.database.pool, n.registry, n.log)
	if err != nil {
		return of, err
	}
	return share{parts: []part{{"limits", readers.Run}}}, nil
}

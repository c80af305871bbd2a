package main

import (
	ingestjobs "github.com/millrace-io/millrace/ingest/jobs"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/internal/sources"
	queryjobs "github.com/millrace-io/millrace/query/jobs"
	"github.com/millrace-io/millrace/schemas/stream"
)

// sourceEvents is the advisory lock of the process that publishes the events of
// sources.
const sourceEvents int64 = 0x6d696c6c_73726373

// crawlStores are those of the sources that are crawled, and of their jobs.
type crawlStores struct {
	sources *sources.Store
	jobs    *jobs.Store
}

// openSources makes the store of the sources that are crawled.
func (n *node) openSources() (err error) {
	if n.stores.sources, err = sources.New(n.database.pool); err != nil {
		return err
	}
	n.stores.acts.Add(n.stores.sources.Subject())
	return n.sample(outbox.Gauges(n.database.pool, stream.Sources, stream.BatchesRead))
}

// takeSources takes commands about sources, and publishes their events.
func (n *node) takeSources() (of share, err error) {
	events, err := outbox.NewPublisher(outbox.Config{Key: sourceEvents}, n.stores.sources.Outbox(), outbox.Deps{
		NATS: n.nats, Postgres: n.database.pool, Registry: n.registry, Log: n.log, Acked: n.acked(),
	})
	if err != nil {
		return of, err
	}
	return share{
		parts:  []part{{"events", events.Run}},
		routes: []func(endpoint.API){ingestjobs.New(n.stores.sources, n.stores.jobs, n.stores.acts).RegisterSources},
	}, nil
}

// readSources tells of the sources.
func (n *node) readSources() (of share, err error) {
	return share{routes: []func(endpoint.API){
		queryjobs.New(n.stores.sources, n.stores.jobs, n.stores.acts).RegisterSources,
	}}, nil
}

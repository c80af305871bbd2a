package main

import (
	"context"

	ingestjobs "github.com/millrace-io/millrace/ingest/jobs"
	"github.com/millrace-io/millrace/ingest/scheduler"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/internal/sources"
	projectorjobs "github.com/millrace-io/millrace/projector/jobs"
	queryjobs "github.com/millrace-io/millrace/query/jobs"
	"github.com/millrace-io/millrace/schemas/stream"
)

// sourceEvents is the advisory lock of the process that publishes the events of
// sources.
const sourceEvents int64 = 0x6d696c6c_73726373

// jobSettings say which sources get jobs.
type jobSettings struct {
	AutoManage bool `help:"Make a job for each source that is enabled and has none." env:"MILLRACE_AUTO_MANAGE_NEW_SOURCES,AUTO_MANAGE_NEW_SOURCES" name:"auto-manage-new-sources" default:"true" negatable:""`
}

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

// openJobs makes the store of jobs. Items that are runs of jobs are moved in every role.
func (n *node) openJobs() (err error) {
	n.stores.jobs, err = jobs.New(jobs.Config{Manual: !n.Jobs.AutoManage}, n.database.pool)
	if err != nil {
		return err
	}
	n.stores.acts.Add(n.stores.jobs.Subject())
	scheduler.Notice(n.stores.queues)
	return n.sample(scheduler.Overdue(n.database.pool))
}

// takeSources takes commands about sources, and publishes their events.
func (n *node) takeSources() (of share, err error) {
	events, err := n.publisher(sourceEvents, n.stores.sources.Outbox())
	if err != nil {
		return of, err
	}
	return share{
		parts: []part{{"events", events.Run}},
		routes: []func(endpoint.API){
			ingestjobs.New(n.stores.sources, n.stores.jobs, n.stores.acts).RegisterSources,
		},
	}, nil
}

// importSources makes and changes sources by a list of JSON lines.
func (n *node) importSources(ctx context.Context, list []byte) error {
	_, err := ingestjobs.New(n.stores.sources, n.stores.jobs, n.stores.acts).Import(ctx, sources.JSONL, list)
	return err
}

// takeJobs takes commands about jobs, and has jobs follow their sources.
func (n *node) takeJobs() (of share, err error) {
	service, err := projectorjobs.New(projectorjobs.Config{}, projectorjobs.Deps{
		NATS: n.nats, Store: n.stores.jobs, Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	return share{
		parts:  []part{{"events", service.Run}},
		routes: []func(endpoint.API){ingestjobs.New(n.stores.sources, n.stores.jobs, n.stores.acts).RegisterJobs},
		gauges: service.Gauges(),
	}, nil
}

// readSources tells of the sources.
func (n *node) readSources() (of share, err error) {
	return share{routes: []func(endpoint.API){
		queryjobs.New(n.stores.sources, n.stores.jobs, n.stores.acts).RegisterSources,
	}}, nil
}

// readJobs tells of jobs, their runs, and whether they have run when they should.
func (n *node) readJobs() (of share, err error) {
	return share{routes: []func(endpoint.API){
		queryjobs.New(n.stores.sources, n.stores.jobs, n.stores.acts).RegisterJobs,
	}}, nil
}

// runJobs runs jobs when they are due.
func (n *node) runJobs() (of share, err error) {
	s, err := scheduler.New(scheduler.Config{}, scheduler.Deps{
		Queues: n.stores.own, Tracer: n.tracer, Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	return share{parts: []part{{"scheduler", s.Run}}}, nil
}

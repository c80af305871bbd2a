package main

import (
	"context"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/query/live"
)

// systems are the systems of an installation, one line each. A system opens its stores after those above it.
var systems = []system{
	{name: "pipeline", ingest: (*node).takeEvents, projector: (*node).foldEvents, query: (*node).readEvents},
	{name: "stream", projector: (*node).keepStream},
	{name: "dead letters", ingest: (*node).replayLetters, query: (*node).readLetters},
	{name: "objects", ingest: (*node).takeObjects},
	{name: "queues", postgres: true, open: (*node).openQueues, ingest: (*node).serveQueues, query: (*node).readQueues},
	{name: "bulk actions", postgres: true, open: (*node).openActs, ingest: (*node).runActs, query: (*node).readActs},
	{name: "shards", postgres: true, open: (*node).openShards, ingest: (*node).takeShards, query: (*node).readShards},
	{name: "retries", postgres: true, open: (*node).openRetries, ingest: (*node).runRetries},
	{name: "sources", postgres: true, open: (*node).openSources, ingest: (*node).takeSources, query: (*node).readSources},
	{
		name: "jobs", postgres: true, open: (*node).openJobs, ingest: (*node).takeJobs, query: (*node).readJobs,
		scheduler: (*node).runJobs,
	},
	{name: "uploads", postgres: true, open: (*node).openUploads, ingest: (*node).takeUploads, query: (*node).readUploads},
	{name: "webhooks", postgres: true, ingest: (*node).sendItems},
	{
		name: "batches", postgres: true, ingest: (*node).takeBatches, projector: (*node).storeBatches,
		query: (*node).readBatches,
	},
	{name: "enrichment", postgres: true, projector: (*node).enrichItems},
	{name: "readers", postgres: true, ingest: (*node).limitReaders},
	{name: "demo", ingest: (*node).runDemo},
}

// system is what one system does in each role; nil: nothing.
type system struct {
	name                                string
	postgres                            bool              // without Postgres it is off, and its parts wait until their tables are there
	open                                func(*node) error // makes its stores, in every role
	ingest, projector, query, scheduler func(*node) (share, error)
}

// share is what a system does in one role of a process.
type share struct {
	parts      []part // each is restarted alone
	clickhouse bool   // they wait until the tables in ClickHouse are there
	routes     []func(endpoint.API)
	views      []live.View
	checks     []httpapi.Check
	warnings   func() []string // what is wrong with stored data at present; nil: nothing ever is
	gauges     []sampler.Source
}

// part works until ctx ends. It may be run again after it has failed.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// in returns what the system does in the roles.
func (s system) in(r roles) (shares []func(*node) (share, error)) {
	for _, role := range []struct {
		runs bool
		do   func(*node) (share, error)
	}{{r.Ingest, s.ingest}, {r.Projector, s.projector}, {r.Query, s.query}, {r.Scheduler, s.scheduler}} {
		if role.runs && role.do != nil {
			shares = append(shares, role.do)
		}
	}
	return shares
}

// needPostgres tells whether a system needs Postgres in the roles.
func needPostgres(r roles) bool {
	for _, s := range systems {
		if s.postgres && len(s.in(r)) > 0 {
			return true
		}
	}
	return false
}

// makeSystems makes the systems of the process. It gives their parts to the supervisor, and returns the rest.
func (n *node) makeSystems() (all share, err error) {
	var on []system
	for _, s := range systems {
		if s.postgres && n.database == nil {
			if len(s.in(n.roles)) > 0 {
				n.supervisor.leaveOut(s.name, "MILLRACE_POSTGRES_DSN is not set")
			}
			continue
		}
		if s.open != nil {
			if err := s.open(n); err != nil {
				return all, err
			}
		}
		on = append(on, s)
	}
	for _, s := range on {
		for _, do := range s.in(n.roles) {
			one, err := do(n)
			if err != nil {
				return all, err
			}
			n.supervise(s, one)
			all.add(one)
		}
	}
	return all, nil
}

// supervise gives what a system does in a role to the supervisor.
func (n *node) supervise(s system, of share) {
	if s.postgres {
		n.database.gate(s.name, of.parts)
	}
	if of.clickhouse {
		n.clickhouseTables.gate(s.name, of.parts)
	}
	for _, p := range of.parts {
		n.supervisor.add(s.name, p)
	}
}

// off returns what is off, and why.
func (n *node) off() []httpapi.Off {
	off := n.supervisor.off()
	for _, t := range n.tables {
		off = append(off, t.off()...)
	}
	return off
}

// add adds what another system does, but for its parts.
func (all *share) add(one share) {
	all.routes = append(all.routes, one.routes...)
	all.views = append(all.views, one.views...)
	all.checks = append(all.checks, one.checks...)
	all.gauges = append(all.gauges, one.gauges...)
	if first, second := all.warnings, one.warnings; first == nil {
		all.warnings = second
	} else if second != nil {
		all.warnings = func() []string { return append(first(), second()...) }
	}
}

package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	ingestjobs "github.com/millrace-io/millrace/ingest/jobs"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/jobs"
	projectorjobs "github.com/millrace-io/millrace/projector/jobs"
	queryjobs "github.com/millrace-io/millrace/query/jobs"
)

// jobSettings say which sources get jobs.
type jobSettings struct {
	AutoManage bool `help:"Make a job for each source that is enabled and has none." env:"MILLRACE_AUTO_MANAGE_NEW_SOURCES,AUTO_MANAGE_NEW_SOURCES" name:"auto-manage-new-sources" default:"true" negatable:""`
}

// newJobs makes the store of jobs, and in the ingest role returns what has them follow
// their sources.
func (n *node) newJobs(pool *pgxpool.Pool, r roles) (func(context.Context) error, error) {
	var err error
	if n.jobs, err = jobs.New(jobs.Config{Manual: !n.jobSettings.AutoManage}, pool); err != nil || !r.Ingest {
		return nil, err
	}
	service, err := projectorjobs.New(projectorjobs.Config{}, projectorjobs.Deps{
		NATS: n.nats, Store: n.jobs, Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	return service.Run, n.sample(service.Gauges()...)
}

// jobRoutes are the routes of jobs.
func (n *node) jobRoutes(a *auth.Auth, r roles) (parts []interface{ Register(*httpapi.Server) }, err error) {
	if r.Ingest {
		commands, err := ingestjobs.New(n.jobs, a, n.log)
		if err != nil {
			return nil, err
		}
		parts = append(parts, commands)
	}
	if r.Query {
		reads, err := queryjobs.New(n.jobs, a, n.log)
		if err != nil {
			return nil, err
		}
		parts = append(parts, reads)
	}
	return parts, nil
}

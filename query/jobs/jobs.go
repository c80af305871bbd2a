package jobs

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// RegisterJobs adds the routes of jobs, for callers with the scope read.
func (h *Handler) RegisterJobs(api endpoint.API) {
	api = jobs.API(api)
	read := endpoint.For(auth.Read)
	endpoint.Get(api, read("list-jobs", "", "Jobs with their sources and their health, the oldest first"), h.listJobs)
	endpoint.Get(api, read("get-job-stats", "/stats", "The numbers of all jobs and runs"), h.stats)
	endpoint.Get(api, read("count-jobs-act", "/acts/count", "How many jobs a bulk action would be about",
		"The number of jobs that the filter matches now. Nothing is done."), h.countJobs)
	endpoint.Get(api, read("get-job", "/{id}", "A job"), h.job)
	endpoint.Get(api, read("get-job-of-source", "/by-source/{source_id}",
		"The job of a source, with its health and last runs"), h.ofSource)
	endpoint.Get(api, read("get-job-ledger", "/{id}/ledger", "What became of each due time of a job, the latest first"),
		h.ledger)
	endpoint.Get(api.At("/sources", "Jobs"), read("list-executions", "/{source_id}/executions",
		"Runs of a source's job, the latest first"), h.executions)
	endpoint.Get(api.At("/events", "Jobs"), read("get-event-log", "/log",
		"What became of each event about a source within seven days, the latest first"), h.events)
	h.registerAudit(api)
}

// Cursors of the lists of jobs, runs and due times.
var (
	jobCursor       = reads.IDs("jobs")
	executionCursor = reads.IDs("executions")
	ledgerCursor    = reads.Times("due times of a job")
)

// SelectJobsRequest selects jobs.
type SelectJobsRequest struct {
	httpapi.Params
	jobs.JobFilter
}

// Resolve implements huma.Resolver.
func (r *SelectJobsRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), endpoint.Refused(r.Check())...)
}

// ListJobsRequest are the parameters of a list of jobs.
type ListJobsRequest struct {
	SelectJobsRequest
	reads.Page
	after uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *ListJobsRequest) Resolve(ctx huma.Context) []error {
	return append(r.SelectJobsRequest.Resolve(ctx), endpoint.Faults(jobCursor.Read(r.Cursor, &r.after))...)
}

func (h *Handler) countJobs(ctx context.Context, in *SelectJobsRequest) (acts.ActCount, error) {
	return h.acts.Count(ctx, acts.Request{Subject: jobs.Subject, Filter: in.JobFilter})
}

// JobPage is a page of jobs.
type JobPage struct {
	reads.List[jobs.JobDetail]
	Total int64 `json:"total" doc:"How many jobs the filters select, on all pages"`
}

func (h *Handler) listJobs(ctx context.Context, in *ListJobsRequest) (JobPage, error) {
	f := in.Filter()
	all, err := h.jobs.List(ctx, f, in.after, in.Limit+1)
	if err != nil {
		return JobPage{}, err
	}
	total, err := h.jobs.Count(ctx, f)
	return JobPage{
		reads.ListOf(jobCursor, all, in.Limit, func(d jobs.JobDetail) uuid.UUID { return d.ID }), total,
	}, err
}

// JobStatsRequest has no parameters.
type JobStatsRequest struct{ httpapi.Params }

// JobStats are the numbers of all jobs.
type JobStats struct{ job.Stats }

func (h *Handler) stats(ctx context.Context, _ *JobStatsRequest) (JobStats, error) {
	stats, err := h.jobs.Stats(ctx)
	return JobStats{stats}, err
}

func (h *Handler) job(ctx context.Context, in *jobs.JobID) (jobs.JobDetail, error) {
	return h.jobs.Get(ctx, in.UUID)
}

// OfSourceRequest names a source.
type OfSourceRequest struct {
	httpapi.Params
	SourceID string `path:"source_id" maxLength:"64" doc:"The source's UUID" example:"0199f0a2-7c1e-7000-8000-000000000001"`
	id       uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *OfSourceRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), endpoint.Faults(source.ReadID("source_id", r.SourceID, &r.id))...)
}

func known(err error, rule string) error {
	if errors.Is(err, jobs.ErrNotFound) {
		return endpoint.NotFound("source_id", rule)
	}
	return err
}

// recent is how many runs the job of a source comes with.
const recent = 10

// JobOfSource is the job of a source, and how it has done.
type JobOfSource struct {
	Job    job.Job         `json:"job"`
	Source *jobs.JobSource `json:"source" doc:"null: there is none"`
	Health job.CrawlHealth `json:"health"`
	Recent []job.Execution `json:"recent_executions" nullable:"false" doc:"The last 10 runs, the latest first"`
}

func (h *Handler) ofSource(ctx context.Context, in *OfSourceRequest) (JobOfSource, error) {
	d, err := h.jobs.OfSource(ctx, in.id)
	if err != nil {
		return JobOfSource{}, known(err, "must be that of a source with a job")
	}
	out := JobOfSource{Job: d.Job, Source: d.Source, Health: d.Health}
	out.Recent, err = h.jobs.Executions(ctx, in.id, "", uuid.Nil, recent)
	return out, err
}

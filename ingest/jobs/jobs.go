package jobs

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/schemas/job"
)

// RegisterJobs adds the routes of jobs, for callers with the scope admin.
func (h *Handler) RegisterJobs(api endpoint.API) {
	api = jobs.API(api)
	admin := endpoint.For(auth.Admin)
	endpoint.Post(api, admin("pause-job", "/{id}/pause", "Pause a job",
		"A run that a worker has goes on. Runs that no worker has are cancelled, and one that was asked for does "+
			"not begin.").WithoutBody(), h.do(jobs.OpPause))
	endpoint.Post(api, admin("resume-job", "/{id}/resume", "Resume a job",
		"It runs at its next due time. A job whose source is disabled is resumed by enabling the source.").WithoutBody(),
		h.do(jobs.OpResume))
	endpoint.Post(api, admin("force-run-job", "/{id}/force-run", "Run a job at once",
		"Neither a backoff nor a window holds it up. The schedule stays as it is.").WithoutBody(), h.do(jobs.OpForceRun))
	endpoint.Post(api, admin("skip-next-run", "/{id}/skip-next", "Skip the next due time of a job").WithoutBody(),
		h.do(jobs.OpSkipNext))
	endpoint.Post(api, admin("unskip-next-run", "/{id}/unskip-next", "Have a job run at its next due time all the same",
		"Takes skip-next back, until that due time has come.").WithoutBody(), h.do(jobs.OpUnskipNext))
	endpoint.Put(api, admin("override-job", "/{id}/override", "Set how a job runs",
		"Settings that are left out stay as they are, and null is back to what follows from the source. "+
			"auto_managed false keeps all as it is, whatever the source becomes.").WithoutCheck(), h.override)
	endpoint.Delete(api, admin("automate-job", "/{id}/override", "Have a job follow its source in everything"),
		h.automate)
	endpoint.Post(api, admin("reconcile-jobs", "/reconcile", "Compare sources and jobs, and mend the differences",
		"Sources that are enabled get the job that they lack, and jobs whose source does not exist become orphaned. "+
			"With dry_run, nothing changes. Millrace does the same every five minutes.").WithoutBody(), h.reconcile)
	endpoint.Post(api, admin("change-jobs", "/bulk", "Do one thing to up to 500 jobs",
		"In one transaction. The answer has a result for each member, in their order; those that are refused keep "+
			"no other back."), h.bulkJobs)
	h.registerJobActs(api)
	h.registerManual(api)
}

// JobCommand is a command on a job, without a document.
type JobCommand struct {
	jobs.JobID
	Body *struct{}
}

func (h *Handler) do(operation string) func(context.Context, *JobCommand) (job.Job, error) {
	return func(ctx context.Context, in *JobCommand) (job.Job, error) {
		return h.jobs.Do(ctx, operation, in.UUID)
	}
}

// JobOverride are settings of a job in a request.
type JobOverride struct {
	draft *job.Draft
	text  json.RawMessage // as it was given
}

// UnmarshalJSON implements json.Unmarshaler. What the settings break is for Resolve to
// say.
func (o *JobOverride) UnmarshalJSON(text []byte) error {
	o.draft, o.text = job.ReadDraft(text), slices.Clone(text)
	jobs.CheckCron(o.draft)
	return nil
}

// settings are those of an override; nil: there are none.
func (o *JobOverride) settings() *job.Draft {
	if o == nil {
		return nil
	}
	return o.draft
}

// check holds that there are settings where they belong, and that they break no rule. The
// operation stands in a field.
func (o *JobOverride) check(operation, field string) []job.Invalid {
	switch wanted := operation == jobs.OpOverride; {
	case o != nil && !wanted:
		return []job.Invalid{{Field: "override", Code: "conflict", Rule: "must be left out, unless " + field + " is override"}}
	case o == nil && wanted:
		return []job.Invalid{{Field: "override", Code: "missing", Rule: "is required when " + field + " is override"}}
	case o == nil:
		return nil
	}
	broken := slices.Clone(o.draft.Broken())
	for i := range broken {
		broken[i].Field = strings.TrimSuffix("override."+broken[i].Field, ".")
	}
	return broken
}

// Schema implements huma.SchemaProvider.
func (JobOverride) Schema(r huma.Registry) *huma.Schema {
	return optional(r, huma.SchemaFromType(r, reflect.TypeFor[struct {
		job.Overrides
		AutoManaged *bool `json:"auto_managed,omitempty" doc:"Whether the job follows its source"`
	}]()))
}

// optional lets settings be left out, and be null; and of a crawl window, what has a
// default.
func optional(r huma.Registry, s *huma.Schema) *huma.Schema {
	window := huma.SchemaFromType(r, reflect.TypeFor[job.CrawlWindow]())
	window.Required = []string{"start_hour", "end_hour"}
	least, most := 0.0, 6.0
	window.Properties["days"].Items = &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeInteger, Minimum: &least, Maximum: &most}, {Type: huma.TypeString, Examples: []any{"mon"}},
	}}
	s.Required, s.Properties["crawl_window"] = nil, window
	for name := range s.Properties {
		s.Properties[name].Nullable = name != "auto_managed"
	}
	return s
}

// OverrideJobRequest sets how a job runs.
type OverrideJobRequest struct {
	jobs.JobID
	Body JobOverride
}

// Resolve implements huma.Resolver.
func (r *OverrideJobRequest) Resolve(ctx huma.Context) []error {
	errs := r.JobID.Resolve(ctx)
	if r.Body.draft != nil { // else there was no JSON
		errs = append(errs, endpoint.Refused(r.Body.draft.Broken())...)
	}
	return errs
}

func (h *Handler) override(ctx context.Context, in *OverrideJobRequest) (job.Job, error) {
	return h.jobs.Set(ctx, in.UUID, in.Body.draft)
}

func (h *Handler) automate(ctx context.Context, in *jobs.JobID) (job.Job, error) {
	return h.jobs.Unset(ctx, in.UUID)
}

// ReconcileJobsRequest compares sources and jobs.
type ReconcileJobsRequest struct {
	httpapi.Params
	Body *struct {
		DryRun bool `json:"dry_run,omitempty" doc:"Change nothing, and say what would be done"`
	}
}

// ReconciledJobs are the sources and jobs that differed.
type ReconciledJobs struct {
	DryRun      bool              `json:"dry_run"`
	Differences []jobs.Difference `json:"differences" nullable:"false"`
}

func (h *Handler) reconcile(ctx context.Context, in *ReconcileJobsRequest) (ReconciledJobs, error) {
	dry := in.Body != nil && in.Body.DryRun
	all, err := h.jobs.Reconcile(ctx, dry)
	if all == nil {
		all = []jobs.Difference{}
	}
	return ReconciledJobs{dry, all}, err
}

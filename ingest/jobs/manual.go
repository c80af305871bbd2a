package jobs

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/schemas/job"
)

// registerManual adds the routes of jobs that are made by hand.
func (h *Handler) registerManual(api endpoint.API) {
	admin := endpoint.For(auth.Admin)
	manual := admin("make-job", "", "Make a job by hand",
		"For a source that has none, with an interval or a cron expression. It does not follow its source in when "+
			"and how it runs. After a migration the answer is 410: Millrace makes a job for each source that is "+
			"enabled.").WithoutCheck()
	manual.Errors = []int{http.StatusGone}
	endpoint.Post(api, manual, h.make)
	endpoint.Post(api, admin("migrate-jobs", "/migrate", "Have jobs that were made by hand follow their sources",
		"Sources that are enabled get the job that they lack, too. From then on no job is made by hand. With dry_run, "+
			"nothing changes, and the answer says what would.").WithoutBody(), h.migrate)
}

// ManualJob is what somebody says of a job that he makes.
type ManualJob struct{ draft *job.Draft }

// UnmarshalJSON implements json.Unmarshaler. What the document breaks is for the
// handler to say.
func (m *ManualJob) UnmarshalJSON(text []byte) error {
	m.draft = job.ReadManual(text)
	jobs.CheckCron(m.draft)
	return nil
}

// Schema implements huma.SchemaProvider.
func (ManualJob) Schema(r huma.Registry) *huma.Schema {
	s := optional(r, huma.SchemaFromType(r, reflect.TypeFor[struct {
		SourceID string `json:"source_id" format:"uuid" doc:"The source that it crawls"`
		job.Overrides
	}]()))
	s.Required = []string{"source_id"}
	s.Properties["source_id"].Nullable = false
	return s
}

// MakeJobRequest makes a job by hand.
type MakeJobRequest struct {
	httpapi.Params
	Body ManualJob
}

// MadeJob is a job that was made.
type MadeJob struct{ job.Job }

// Made implements endpoint.Created.
func (MadeJob) Made() bool { return true }

// make says what is wrong with a request only while it could do something.
func (h *Handler) make(ctx context.Context, in *MakeJobRequest) (MadeJob, error) {
	migrated, err := h.jobs.Migrated(ctx)
	if err != nil {
		return MadeJob{}, err
	}
	if broken := in.Body.draft.Broken(); !migrated && len(broken) > 0 {
		return MadeJob{}, endpoint.BadRequest(broken...)
	}
	if migrated {
		return MadeJob{}, gone()
	}
	made, err := h.jobs.Make(ctx, in.Body.draft)
	var taken *jobs.TakenError
	switch {
	case errors.Is(err, jobs.ErrMigrated):
		err = gone()
	case errors.Is(err, jobs.ErrNotFound):
		err = endpoint.NotFound("source_id", "must be that of a source")
	case errors.As(err, &taken):
		err = httpapi.NewProblem(http.StatusConflict, "the source has a job", httpapi.FieldError{
			Field: "source_id", Code: "exists",
			Rule: "must be of a source without a job: set how that one runs with PUT /api/v1/jobs/" +
				taken.Job.String() + "/override",
		})
	}
	return MadeJob{made}, err
}

// gone tells a caller how a source is crawled when jobs are not made by hand any more.
func gone() error {
	return httpapi.NewProblem(http.StatusGone, "jobs are not made by hand any more: each source that is enabled has one",
		httpapi.FieldError{
			Code: "migrated", Rule: "make the source with POST /api/v1/sources, or enable it, and set how its job " +
				"runs with PUT /api/v1/jobs/{id}/override",
		})
}

// MigrateJobsRequest has all jobs follow their sources.
type MigrateJobsRequest struct {
	httpapi.Params
	DryRun bool `query:"dry_run" doc:"Change nothing, and say what would be done"`
	Body   *struct{}
}

// MigratedJobs are what a migration does.
type MigratedJobs struct {
	DryRun bool               `json:"dry_run"`
	Jobs   []jobs.MigratedJob `json:"jobs" nullable:"false"`
}

func (h *Handler) migrate(ctx context.Context, in *MigrateJobsRequest) (MigratedJobs, error) {
	all, err := h.jobs.Migrate(ctx, in.DryRun)
	if all == nil {
		all = []jobs.MigratedJob{}
	}
	return MigratedJobs{in.DryRun, all}, err
}

package jobs

import (
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/source"
)

// API returns what registers the operations of jobs.
func API(api endpoint.API) endpoint.API {
	api = api.At("/jobs", "Jobs")
	api.Known = knownError
	return api
}

// knownError tells a caller that a job does not exist, or why a command does not apply.
func knownError(err error) error {
	var refusal *Refusal
	switch {
	case errors.Is(err, ErrNotFound):
		return endpoint.NotFound("id", "must be that of a job")
	case errors.As(err, &refusal):
		return httpapi.NewProblem(http.StatusConflict, "the job is "+refusal.Status,
			httpapi.FieldError{Field: "status", Code: refusal.Status, Rule: refusal.Rule})
	}
	return nil
}

// JobID is the path of a job.
type JobID struct {
	httpapi.Params
	ID   string `path:"id" maxLength:"64" doc:"The job's UUID" example:"0199f0a2-7c1e-7000-8000-000000000002"`
	UUID uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *JobID) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), endpoint.Faults(source.ReadID("id", r.ID, &r.UUID))...)
}

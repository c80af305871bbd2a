package jobs

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/ledger"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/source"
)

// registerAudit adds what the ledger and the schedules of jobs say.
func (h *Handler) registerAudit(api endpoint.API) {
	read := endpoint.For(auth.Read)
	endpoint.Get(api, read("audit-jobs", "/audit", "Compare what became of due times with what schedules say",
		"Computes the due times of all jobs anew, also of those that were deleted since, and looks for each in the "+
			"ledger. It reads as much as there is: ask for a day at a time where many jobs run often."), h.audit)
	endpoint.Get(api, read("list-upcoming-runs", "/{id}/upcoming", "The next due times of a job",
		"By the schedule that it has, with the changes of clocks between them."), h.upcoming)
}

// UpcomingRequest names a job.
type UpcomingRequest struct {
	httpapi.Params
	ID    string `path:"id" maxLength:"64" doc:"The job's UUID" example:"0199f0a2-7c1e-7000-8000-000000000001"`
	Limit int    `query:"limit" minimum:"1" maximum:"100" default:"10" doc:"How many due times"`
	id    uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *UpcomingRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), endpoint.Faults(source.ReadID("id", r.ID, &r.id))...)
}

func (h *Handler) upcoming(ctx context.Context, in *UpcomingRequest) (ledger.Upcoming, error) {
	u, err := ledger.Next(ctx, h.jobs.Pool(), in.id, in.Limit)
	switch {
	case errors.Is(err, ledger.ErrNoJob):
		return ledger.Upcoming{}, endpoint.NotFound("id", "must be that of a job")
	case err != nil:
		return ledger.Upcoming{}, err
	}
	return *u, nil
}

// AuditRequest are the parameters of an audit.
type AuditRequest struct {
	httpapi.Params
	From instant.Time `query:"from" required:"true" format:"date-time" doc:"Due times from then on" example:"2026-02-10T00:00:00Z"`
	To   instant.Time `query:"to" required:"true" format:"date-time" doc:"Due times before; those to come are left out" example:"2026-02-11T00:00:00Z"`
}

// Resolve implements huma.Resolver.
func (r *AuditRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	if !r.From.IsZero() && !r.To.IsZero() && !r.From.Before(r.To.Time) {
		errs = append(errs, httpapi.FieldError{Field: "to", Code: "order", Rule: "must be after from"})
	}
	return errs
}

func (h *Handler) audit(ctx context.Context, in *AuditRequest) (ledger.JobAudit, error) {
	r, err := ledger.Audit(ctx, h.jobs.Pool(), in.From.Time, in.To.Time)
	if err != nil {
		return ledger.JobAudit{}, err
	}
	return *r, nil
}

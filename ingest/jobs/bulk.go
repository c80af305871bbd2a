package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/source"
)

// maxBulk is how many sources or jobs one request may name.
const maxBulk = 500

// ChangeSourcesRequest does one thing to many sources.
type ChangeSourcesRequest struct {
	httpapi.Params
	Body struct {
		Operation string   `json:"operation" doc:"enable, disable or delete" example:"disable"`
		IDs       []string `json:"ids" nullable:"false" doc:"1 to 500 sources, by their ids"`
		ToggleReason
	}
}

// Resolve implements huma.Resolver.
func (r *ChangeSourcesRequest) Resolve(ctx huma.Context) []error {
	return slices.Concat(r.Params.Resolve(ctx), checkReason(r.Body.reason()),
		checkOperation(r.Body.Operation, sources.Operations), checkLength("ids", r.Body.IDs))
}

// ChangeJobsRequest does one thing to many jobs.
type ChangeJobsRequest struct {
	httpapi.Params
	Body struct {
		Operation string   `json:"operation" doc:"pause, resume, force-run, skip-next, unskip-next or override" example:"pause"`
		IDs       []string `json:"ids,omitempty" nullable:"false" doc:"1 to 500 jobs, by their ids"`
		SourceIDs []string `json:"source_ids,omitempty" nullable:"false" doc:"In place of ids: the jobs of 1 to 500 sources, by the ids of the sources"`
		// Override is a pointer: other operations have none.
		Override *JobOverride `json:"override,omitempty" doc:"Of override: the settings, as PUT /jobs/{id}/override takes them"`
	}
}

// Resolve implements huma.Resolver.
func (r *ChangeJobsRequest) Resolve(ctx huma.Context) []error {
	errs := append(r.Params.Resolve(ctx), checkOperation(r.Body.Operation, jobs.Operations)...)
	switch {
	case r.Body.IDs != nil && r.Body.SourceIDs != nil:
		errs = append(errs, httpapi.FieldError{
			Field: "source_ids", Code: "conflict", Rule: "must not be given together with ids",
		})
	case r.Body.SourceIDs != nil:
		errs = append(errs, checkLength("source_ids", r.Body.SourceIDs)...)
	default:
		errs = append(errs, checkLength("ids", r.Body.IDs)...)
	}
	return append(errs, endpoint.Refused(r.Body.Override.check(r.Body.Operation, "operation"))...)
}

func checkOperation(operation string, known []string) []error {
	if slices.Contains(known, operation) {
		return nil
	}
	rule := "must be one of " + strings.Join(known, ", ")
	return []error{httpapi.FieldError{Field: "operation", Code: "operation_unknown", Rule: rule}}
}

func checkLength(field string, ids []string) []error {
	if n := len(ids); 1 <= n && n <= maxBulk {
		return nil
	}
	rule := fmt.Sprintf("must be 1 to %d ids", maxBulk)
	return []error{httpapi.FieldError{Field: field, Code: "length", Rule: rule}}
}

// ChangedSource is what became of one source.
type ChangedSource struct {
	ID    string `json:"id"`
	OK    bool   `json:"ok" doc:"Whether it is as it was asked for"`
	Error string `json:"error,omitempty" doc:"Why not"`
}

// ChangedSources has a result for each member of the request, in their order.
type ChangedSources struct {
	Results []ChangedSource `json:"results" nullable:"false"`
}

func (h *Handler) bulkSources(ctx context.Context, in *ChangeSourcesRequest) (ChangedSources, error) {
	missing, err := h.sources.Bulk(ctx, in.Body.Operation, parsed(in.Body.IDs), in.Body.reason())
	return ChangedSources{results[ChangedSource](in.Body.IDs, func(id uuid.UUID) string {
		if missing[id] {
			return sources.ErrNotFound.Error()
		}
		return ""
	})}, err
}

// ChangedJob is what became of one job.
type ChangedJob struct {
	ID    string `json:"id" doc:"As the request names it: that of the job, or of its source"`
	OK    bool   `json:"ok" doc:"Whether it is as it was asked for"`
	Error string `json:"error,omitempty" doc:"Why not"`
}

// ChangedJobs has a result for each member of the request, in their order.
type ChangedJobs struct {
	Results []ChangedJob `json:"results" nullable:"false"`
}

func (h *Handler) bulkJobs(ctx context.Context, in *ChangeJobsRequest) (ChangedJobs, error) {
	named, ofSources := in.Body.IDs, in.Body.SourceIDs != nil
	if ofSources {
		named = in.Body.SourceIDs
	}
	why, err := h.jobs.Bulk(ctx, in.Body.Operation, in.Body.Override.settings(), jobs.Many{
		IDs: parsed(named), OfSources: ofSources,
	})
	return ChangedJobs{results[ChangedJob](named, func(id uuid.UUID) string {
		var refusal *jobs.Refusal
		switch err := why[id]; {
		case errors.As(err, &refusal):
			return refusal.Rule
		case err != nil:
			return err.Error()
		}
		return ""
	})}, err
}

// parsed returns the ids that are UUIDs.
func parsed(named []string) (ids []uuid.UUID) {
	for _, text := range named {
		if id, ok := source.ParseID(text); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// results returns what became of each member of a request, in their order. why says why one is not as it was asked
// for; empty: it is.
func results[R ChangedSource | ChangedJob](named []string, why func(uuid.UUID) string) []R {
	all := make([]R, len(named))
	for i, text := range named {
		fault := source.BadID("id").Rule
		if id, ok := source.ParseID(text); ok {
			fault = why(id)
		}
		all[i] = R(ChangedSource{text, fault == "", fault})
	}
	return all
}

package acts

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/batches"
)

// registerErrors adds the routes that have errors of batches tried again.
func (h *Handler) registerErrors(api endpoint.API) {
	api = api.At("/crawl-errors", "Batches")
	endpoint.Post(api, endpoint.Operation{
		ID: "retry-crawl-errors", Path: "/retry", Summary: "Have all errors of batches that a filter matches tried again",
		Scope: auth.Admin,
		Text: "It begins a bulk action, whose record and progress GET /acts/{id} has, and which POST /acts/{id}/stop " +
			"stops. Its members are the errors that match now and are not being tried again: the oldest 1,000,000 at " +
			"most. Errors of all categories can be tried again. What is no error any more is skipped. " +
			"GET /crawl-errors/retry with the same filter says the number before.",
	}, h.retryErrors)
	api.Base = "/batches/{job_id}/{batch_index}"
	one := endpoint.Operation{
		ID: "retry-batch-item", Path: "/items/{position}/retry", Summary: "Have one item of a batch tried again",
		Scope: auth.Admin, Bodiless: true,
		Text: "The item must be an error. One that is being tried again stays as it is.",
	}
	endpoint.Post(api, one, h.retryItem)
}

// RetryErrorsRequest asks for an act on errors of batches.
type RetryErrorsRequest struct {
	httpapi.Params
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"The same request with the same key, by the same caller, answers 200 with the act that the first has begun"`
	Body recrawl.ErrorFilter
}

// Resolve implements huma.Resolver.
func (r *RetryErrorsRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	if rule := userqueue.CheckText("Idempotency-Key", r.Key); rule != nil {
		errs = append(errs, httpapi.FieldError(*rule))
	}
	for _, rule := range r.Body.Check() {
		errs = append(errs, httpapi.FieldError(rule))
	}
	return errs
}

func (h *Handler) retryErrors(ctx context.Context, in *RetryErrorsRequest) (BegunAct, error) {
	return h.beginAct(ctx, acts.Request{Move: acts.Retry, Errors: &in.Body, Key: in.Key})
}

// RetryItemRequest names an item of a batch.
type RetryItemRequest struct {
	httpapi.Params
	JobID      string `path:"job_id" doc:"A slash in it is written %2F" example:"proj_xyz-brand-0"`
	BatchIndex int32  `path:"batch_index" minimum:"0" example:"1"`
	Position   int    `path:"position" minimum:"0" maximum:"99999" doc:"Of the item in the batch, from 0"`
}

// RetriedItem is an item that is tried again.
type RetriedItem struct {
	State string `json:"state" enum:"retrying"`
	Begun bool   `json:"begun" doc:"false: it was being tried again before"`
}

func (h *Handler) retryItem(ctx context.Context, in *RetryItemRequest) (RetriedItem, error) {
	begun, err := h.store.Errors().Retry(ctx, batches.ID{Job: in.JobID, Index: in.BatchIndex}, in.Position)
	if errors.Is(err, recrawl.ErrNoError) {
		return RetriedItem{}, endpoint.NotFound("position", "must be that of an item of a batch that is an error")
	}
	return RetriedItem{"retrying", begun}, err
}

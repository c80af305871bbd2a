package acts

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/schemas/batches"
)

// registerErrors adds the routes that have errors of batches tried again.
func (h *Handler) registerErrors(api endpoint.API) {
	api = api.At("/crawl-errors", "Batches")
	Begin[recrawl.ErrorFilter](api, h.store, endpoint.Operation{
		ID: "retry-crawl-errors", Path: "/retry", Summary: "Have all errors of batches that a filter matches tried again",
		Text: "It begins a bulk action, whose record and progress GET /acts/{id} has, and which POST /acts/{id}/stop " +
			"stops. Its members are the errors that match now and are not being tried again: the oldest 1,000,000 at " +
			"most. Errors of all categories can be tried again. What is no error any more is skipped. " +
			"GET /crawl-errors/retry with the same filter says the number before.",
	})
	api.Base = "/batches/{job_id}/{batch_index}"
	one := endpoint.Operation{
		ID: "retry-batch-item", Path: "/items/{position}/retry", Summary: "Have one item of a batch tried again",
		Scope: auth.Admin, Bodiless: true,
		Text: "The item must be an error. One that is being tried again stays as it is.",
	}
	endpoint.Post(api, one, h.retryItem)
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
	begun, err := h.errs.Retry(ctx, batches.ID{Job: in.JobID, Index: in.BatchIndex}, in.Position)
	if errors.Is(err, recrawl.ErrNoError) {
		return RetriedItem{}, endpoint.NotFound("position", "must be that of an item of a batch that is an error")
	}
	return RetriedItem{"retrying", begun}, err
}

package uploads

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

const reprocessTime = 15 * time.Second // then the caller asks again

// ReprocessUploadRequest has items of an upload processed again.
type ReprocessUploadRequest struct {
	uploadsapi.UploadID
	Body *ReprocessedItems
	what uploads.Reprocess
}

// ReprocessedItems says which items.
type ReprocessedItems struct {
	Scope         string   `json:"scope,omitempty" enum:"job,items" doc:"All items of the upload, or those of itemIds; default job"`
	ItemIDs       []string `json:"itemIds,omitempty" maxItems:"10000" doc:"Ids of items, where scope is items"`
	Statuses      []string `json:"statuses,omitempty" maxItems:"4" doc:"Only items with one of these; default ERROR and NOT_FOUND" enum:"DONE,ERROR,NOT_FOUND,SKIPPED"`
	ResetAttempts bool     `json:"resetAttempts,omitempty" doc:"Begin attempts anew. Else items that are ERROR or NOT_FOUND need to have attempts left"`
}

// Resolve implements huma.Resolver.
func (r *ReprocessUploadRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	wrong := func(field, code, rule string) {
		errs = append(errs, httpapi.FieldError{Field: field, Code: code, Rule: rule})
	}
	r.what.Statuses = []schema.Status{schema.Error, schema.NotFound}
	if r.Body == nil {
		return errs
	}
	r.what.Reset = r.Body.ResetAttempts
	if len(r.Body.Statuses) > 0 {
		r.what.Statuses = nil
	}
	for _, name := range r.Body.Statuses {
		if one, err := schema.ParseStatuses(name); err == nil { // else the schema says what is wrong
			r.what.Statuses = append(r.what.Statuses, one...)
		}
	}
	switch items := r.Body.Scope == "items"; {
	case items && len(r.Body.ItemIDs) == 0:
		wrong("itemIds", "required", "must have at least one id where scope is items")
	case !items && len(r.Body.ItemIDs) > 0:
		wrong("itemIds", "scope", "must not be there unless scope is items")
	}
	for i, id := range r.Body.ItemIDs {
		job, row, ok := schema.ParseItemID(id)
		if !ok || job != r.JobID {
			wrong(fmt.Sprintf("itemIds[%d]", i), "item_id", "must be the id of an item of this upload")
			break
		}
		r.what.Rows = append(r.what.Rows, int32(row))
	}
	return errs
}

// ReprocessedUpload is what became of it.
type ReprocessedUpload struct {
	JobID       string `json:"jobId"`
	Reprocessed int    `json:"reprocessed" doc:"Items that are PENDING now"`
	More        bool   `json:"more" doc:"There may be more: ask again"`
	QueueState  string `json:"queue_state" enum:"QUEUED,RUNNING,PAUSED,DONE,FAILED" doc:"Of the upload, behind it"`
	Pending     int32  `json:"pending" doc:"Items that are pending, behind it"`
}

func (h *Handler) reprocess(ctx context.Context, in *ReprocessUploadRequest) (out ReprocessedUpload, err error) {
	who := uploadsapi.ViewerFrom(ctx)
	out.JobID = in.JobID
	out.Reprocessed, out.More, err = h.store.Reprocess(ctx, who, in.UUID(), in.what, time.Now().Add(reprocessTime))
	if err != nil {
		return out, err
	}
	j, err := h.store.Get(ctx, who, in.UUID())
	out.QueueState, out.Pending = j.State, j.Counts[schema.Pending]
	return out, err
}

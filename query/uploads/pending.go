package uploads

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

const pendingText = "In the order of (updated_at, id), without results. Each item of the statuses asked for is shown at " +
	"least once. One that changes meanwhile comes again, further behind: keep that with the highest version. A page may " +
	"be short, or empty, and have next: changes are under way whose items belong there."

// ListPendingRequest are the parameters of a page of items of all uploads.
type ListPendingRequest struct {
	httpapi.Params
	Statuses string `query:"statuses" maxLength:"200" default:"PENDING,PROCESSING" doc:"Only items with one of these statuses, with commas between them"`
	UserID   string `query:"userId" enum:"me,all" default:"me" doc:"Of the caller, or of all users, which is for admins"`
	JobType  string `query:"jobType" enum:"csv,ndjson,xlsx,zip" doc:"Only items of files of this format"`
	PageSize int    `query:"pageSize" minimum:"1" maximum:"1000" default:"100" doc:"How many items a page has at most"`
	After    string `query:"after" maxLength:"200" doc:"next of the page before, with the same parameters"`

	statuses []schema.Status
	after    schema.Cursor
}

// Resolve implements huma.Resolver.
func (r *ListPendingRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	var err error
	if r.statuses, err = schema.ParseStatuses(r.Statuses); err != nil {
		errs = append(errs, httpapi.FieldError{Field: "statuses", Code: "statuses", Rule: err.Error()})
	}
	if r.After == "" {
		return errs
	}
	var ok bool
	if r.after, ok = schema.DecodeCursor(r.After); ok {
		_, err = uuid.Parse(r.after.Job)
	}
	if !ok || err != nil || r.after.At.IsZero() {
		errs = append(errs, badCursor("after", "next"))
	}
	return errs
}

// PendingItem is a row of any upload.
type PendingItem struct {
	ID           string            `json:"id" example:"0199f0a2-7c1e-7000-8000-000000000001-7"`
	JobID        string            `json:"job_id"`
	UserID       string            `json:"user_id" doc:"Whose upload it is"`
	JobType      string            `json:"job_type" enum:"csv,ndjson,xlsx,zip" doc:"The format of the file"`
	JobState     string            `json:"job_state" enum:"QUEUED,RUNNING,PAUSED,DONE,FAILED" doc:"The state of the upload"`
	JobTotal     int32             `json:"job_total_items" doc:"Items of the upload"`
	JobProcessed int32             `json:"job_processed_items" doc:"Those of them with a final status"`
	RowNo        int32             `json:"row_no"`
	Status       string            `json:"status" enum:"PENDING,PROCESSING,DONE,ERROR,NOT_FOUND,SKIPPED"`
	Attempts     int16             `json:"attempts"`
	Version      int32             `json:"version" doc:"Grows with each change"`
	LockedBy     *string           `json:"locked_by" doc:"The worker that holds it"`
	LockedAt     *time.Time        `json:"locked_at"`
	InputSummary map[string]string `json:"inputSummary" nullable:"false" doc:"The columns that the mapping names for title, brand and sku, and else the first ones, or the members title, brand and sku of JSON lines; each cut at 200 characters"`
	UpdatedAt    time.Time         `json:"updated_at"`
}

// PendingPage is a page of items of all uploads.
type PendingPage struct {
	Items []PendingItem `json:"items" nullable:"false"`
	Next  string        `json:"next,omitempty" doc:"For after; absent from the last page"`
}

// beginning is a place before all items.
var beginning = schema.Cursor{At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Job: uuid.Nil.String(), Row: 1}

func (h *Handler) pending(ctx context.Context, in *ListPendingRequest) (PendingPage, error) {
	page := PendingPage{Items: []PendingItem{}}
	who := uploadsapi.ViewerFrom(ctx)
	if in.UserID == "all" && !who.All {
		return page, httpapi.NewProblem(http.StatusForbidden, "only admins may see the items of all users",
			httpapi.FieldError{Field: "userId", Code: "admin", Rule: "must be me: only admins may see the items of all users"})
	}
	q := uploads.PendingQuery{Statuses: in.statuses, Kind: in.JobType, After: in.after, Limit: in.PageSize}
	if in.UserID == "me" {
		q.Owner = &who.Subject
	}
	begun := time.Now()
	all, err := h.Store.Pending(ctx, q)
	if err != nil {
		return page, err
	}
	h.walked("items of all uploads", begun, in.After, len(all.Items))
	for _, item := range all.Items {
		page.Items = append(page.Items, pendingItem(item))
	}
	next := beginning
	switch n := len(page.Items); {
	case !all.More:
		return page, nil
	case n > 0:
		last := all.Items[n-1]
		next = schema.Cursor{At: last.Updated, Job: last.Job.ID.String(), Row: int64(last.Row)}
	case in.After != "":
		next = in.after
	}
	page.Next = next.Encode()
	return page, nil
}

func pendingItem(item uploads.PendingItem) PendingItem {
	of := uploadItem(*item.Job, item.Item)
	return PendingItem{
		ID: of.ID, JobID: of.JobID, UserID: item.Job.Owner, JobType: of.JobType, JobState: item.Job.State,
		JobTotal: item.Job.Total(), JobProcessed: item.Job.Processed(), RowNo: of.RowNo, Status: of.Status,
		Attempts: of.Attempts, Version: of.Version, LockedBy: of.LockedBy, LockedAt: of.LockedAt,
		InputSummary: of.InputSummary, UpdatedAt: of.UpdatedAt,
	}
}

package uploads

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/reads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

const itemsText = "By sort=updated_at, each item of the statuses asked for is shown at least once, as it is then. One " +
	"that changes meanwhile comes again, further behind: keep that with the highest version. By sort=row_no, they " +
	"are in the order of the file. after goes on behind a page; page works for the first 10,000 items."

// maxPaged is how many items page reaches.
const maxPaged = 10_000

// ListUploadItemsRequest are the parameters of a page of items.
type ListUploadItemsRequest struct {
	uploadsapi.UploadID
	Statuses string `query:"statuses" maxLength:"200" doc:"Only items with one of these statuses, with commas between them" example:"PENDING,PROCESSING"`
	Status   string `query:"status" enum:"PENDING,PROCESSING,DONE,ERROR,NOT_FOUND,SKIPPED" doc:"Only items with this status"`
	Sort     string `query:"sort" enum:"row_no,updated_at" doc:"Default row_no, and updated_at with statuses"`
	PageSize int    `query:"pageSize" minimum:"1" maximum:"1000" default:"100" doc:"How many items a page has at most. It has fewer where results are large"`
	Page     int    `query:"page" minimum:"1" doc:"Which page, from 1, among the first 10,000 items; not beside after"`
	After    string `query:"after" maxLength:"200" doc:"next of the page before, with the same parameters"`

	statuses []schema.Status
	after    schema.Cursor
}

// Resolve implements huma.Resolver.
func (r *ListUploadItemsRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	wrong := func(field, code, rule string) {
		errs = append(errs, httpapi.FieldError{Field: field, Code: code, Rule: rule})
	}
	if r.Sort == "" {
		r.Sort = "row_no"
		if r.Statuses != "" {
			r.Sort = "updated_at"
		}
	}
	if r.Status != "" && r.Statuses != "" {
		wrong("status", "status_and_statuses", "must not stand beside statuses")
	}
	list := r.Statuses
	if r.Status != "" {
		list = r.Status
	}
	var err error
	if r.statuses, err = schema.ParseStatuses(list); err != nil && r.Statuses != "" { // of status, the enum is checked
		wrong("statuses", "statuses", err.Error())
	}
	switch {
	case r.Page > 0 && r.After != "":
		wrong("page", "page_and_after", "must not stand beside after")
	case r.Page*r.PageSize > maxPaged:
		wrong("page", "page_range", fmt.Sprintf("must be within the first %d items: go on with after", maxPaged))
	}
	if r.After == "" {
		return errs
	}
	var ok bool
	r.after, ok = schema.DecodeCursor(r.After)
	if !ok || r.after.Job != r.JobID || r.after.At.IsZero() != (r.Sort == "row_no") {
		errs = append(errs, badCursor("after", "next"))
	}
	return errs
}

// UploadItem is a row of an upload.
type UploadItem struct {
	ID           string            `json:"id" example:"0199f0a2-7c1e-7000-8000-000000000001-7"`
	JobID        string            `json:"job_id"`
	JobType      string            `json:"job_type" enum:"csv,ndjson,xlsx,zip" doc:"The format of the file"`
	RowNo        int32             `json:"row_no" doc:"Its place among the rows of the file, rejected ones included; from 1"`
	Status       string            `json:"status" enum:"PENDING,PROCESSING,DONE,ERROR,NOT_FOUND,SKIPPED"`
	Attempts     int16             `json:"attempts"`
	Version      int32             `json:"version" doc:"Grows with each change"`
	LockedBy     *string           `json:"locked_by" doc:"The worker that holds it; null: none does, and copy needs none"`
	LockedAt     *time.Time        `json:"locked_at"`
	LastError    *string           `json:"last_error"`
	InputSummary map[string]string `json:"inputSummary" nullable:"false" doc:"The columns that the mapping names for title, brand and sku, and else the first ones, or the members title, brand and sku of JSON lines; each cut at 200 characters"`
	Result       json.RawMessage   `json:"result" doc:"The row of the grid; null before it is DONE"`
	ImageLink    string            `json:"image_link,omitempty" doc:"Where the image of a row of a zip is" example:"/api/v1/uploads/0199f0a2-7c1e-7000-8000-000000000001/images/7"`
	UpdatedAt    time.Time         `json:"updated_at"`
}

// UploadItemPage is a page of items.
type UploadItemPage struct {
	Items []UploadItem `json:"items" nullable:"false"`
	Next  string       `json:"next,omitempty" doc:"For after; absent from the last page"`
}

func (h *Handler) items(ctx context.Context, in *ListUploadItemsRequest) (UploadItemPage, error) {
	page := UploadItemPage{Items: []UploadItem{}}
	j, err := h.job(ctx, in.UploadID)
	if err != nil {
		return page, err
	}
	q := uploads.ItemsQuery{Statuses: in.statuses, ByRow: in.Sort == "row_no", After: in.after, Limit: in.PageSize}
	if in.Page > 0 {
		q.Skip = (in.Page - 1) * in.PageSize
	}
	begun := time.Now()
	all, more, err := h.Store.Items(ctx, j, q)
	if err != nil {
		return page, err
	}
	h.walked("items of an upload", begun, in.After, len(all))
	for _, item := range all {
		page.Items = append(page.Items, uploadItem(j, item))
	}
	if more {
		last := all[len(all)-1]
		next := schema.Cursor{Job: in.JobID, Row: int64(last.Row)}
		if !q.ByRow {
			next.At = last.Updated
		}
		page.Next = next.Encode()
	}
	return page, nil
}

// uploadItem is what an item of a job looks like.
func uploadItem(j uploads.Job, item uploads.Item) UploadItem {
	id := j.ID.String()
	out := UploadItem{
		ID: schema.ItemID(id, int64(item.Row)), JobID: id, JobType: j.Format.Kind, RowNo: item.Row,
		Status: item.Status.String(), Attempts: item.Attempts, Version: item.Version,
		InputSummary: map[string]string{}, Result: item.Result, UpdatedAt: uploadsapi.At(item.Updated),
		LockedBy: item.Worker, LastError: item.Error,
	}
	if j.Format.Kind == tabular.Zip {
		out.ImageLink = uploads.ImageLink(j.ID, int64(item.Row))
	}
	if item.TakenAt != nil {
		at := uploadsapi.At(*item.TakenAt)
		out.LockedAt = &at
	}
	names := uploads.SummaryOf(j)
	for i, field := range uploads.SummaryFields {
		if item.Summary[i] != nil {
			if _, mapped := j.Mapping[field]; !mapped {
				field = names[i]
			}
			out.InputSummary[field] = *item.Summary[i]
		}
	}
	return out
}

// slowPage is how long a page may take before the log says so.
const slowPage = time.Second

// walked logs where a page begins, and warns of one that was slow.
func (h *Handler) walked(what string, begun time.Time, after string, items int) {
	log := h.Log.Debug
	if time.Since(begun) > slowPage {
		log = h.Log.Warn
	}
	log("a page was read", "of", what, "took", time.Since(begun), "after", after, "items", items)
}

// ListRejectedRowsRequest are the parameters of a page of rejected rows.
type ListRejectedRowsRequest struct {
	uploadsapi.UploadID
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100" doc:"How many a page has at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// RejectedRow is a row that breaks a rule.
type RejectedRow struct {
	RowNo int32   `json:"row_no" doc:"Its place among the rows of the file; from 1"`
	Line  int64   `json:"line" doc:"On which it begins; 0: not known"`
	Code  string  `json:"code" doc:"The rule that it breaks" example:"cells_count"`
	Error string  `json:"error" example:"the row has 9 cells, and the header has 8"`
	Text  *string `json:"text" doc:"Its first 64 KiB; null where they are no text, see bytes"`
	Bytes string  `json:"bytes,omitempty" doc:"Its first 64 KiB in base64, where they are no text"`
}

// RejectedRowPage is a page of rejected rows.
type RejectedRowPage struct{ reads.List[RejectedRow] }

func (h *Handler) rejected(ctx context.Context, in *ListRejectedRowsRequest) (RejectedRowPage, error) {
	page := RejectedRowPage{reads.List[RejectedRow]{Items: []RejectedRow{}}}
	j, err := h.job(ctx, in.UploadID)
	if err != nil {
		return page, err
	}
	after, ok := rejectCursor.Decode(in.Cursor)
	if in.Cursor != "" && (!ok || after[0] != rejectPlace(j)) {
		return page, httpapi.NewProblem(400, "a parameter breaks a rule", badCursor("cursor", "next_cursor"))
	}
	all, err := h.Store.Rejects(ctx, j, int32(after[1]), in.Limit+1)
	if err != nil {
		return page, err
	}
	all, page.NextCursor = reads.Cut(rejectCursor, all, in.Limit, func(r uploads.Reject) reads.Pair {
		return reads.Pair{rejectPlace(j), uint64(r.No)}
	})
	for _, r := range all {
		page.Items = append(page.Items, rejectedRow(r))
	}
	return page, nil
}

func rejectedRow(r uploads.Reject) RejectedRow {
	row := RejectedRow{RowNo: r.No, Line: r.Line, Code: r.Code, Error: r.Error}
	if text := string(r.Content); utf8.ValidString(text) {
		row.Text = &text
	} else {
		row.Bytes = base64.StdEncoding.EncodeToString(r.Content)
	}
	return row
}

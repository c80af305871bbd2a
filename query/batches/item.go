package batches

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/batches/itemindex"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/batches"
)

// CrawledItem is the outcome that counts of one item of a batch.
type CrawledItem struct {
	JobID           string     `json:"job_id" example:"proj_xyz-brand-0"`
	BatchIndex      uint32     `json:"batch_index" example:"1"`
	Position        uint32     `json:"position" doc:"In the batch, from 0"`
	ProjectID       *string    `json:"project_id" doc:"null: a dry run, or none"`
	Platform        string     `json:"platform" example:"tiktok"`
	TaskType        string     `json:"task_type"`
	KeywordSource   string     `json:"keyword_source"`
	PipelineVersion string     `json:"pipeline_version"`
	ContentID       string     `json:"content_id" doc:"Empty: none can be read"`
	Permalink       string     `json:"permalink"`
	CrawledAt       *time.Time `json:"crawled_at" doc:"null: the item does not say"`
	FetchStatus     string     `json:"fetch_status" enum:"success,error"`
	ErrorCategory   string     `json:"error_category,omitempty" doc:"Absent: no error"`
	ErrorCode       string     `json:"error_code,omitempty" doc:"Absent: no error"`
	FetchError      string     `json:"fetch_error,omitempty" doc:"Message of the error, or the rule that the item breaks"`
	Attempts        uint64     `json:"attempts" doc:"Retries that the outcome took; 0: it came with the batch"`
	ReadAt          time.Time  `json:"read_at" doc:"When the batch was read"`
	CreatedAt       time.Time  `json:"created_at" doc:"When the outcome came"`
}

func scanItem(rows driver.Rows) (i CrawledItem, err error) {
	var project string
	err = rows.Scan(&i.JobID, &i.BatchIndex, &i.Position, &i.Attempts, &project, &i.Platform, &i.TaskType,
		&i.KeywordSource, &i.PipelineVersion, &i.ContentID, &i.Permalink, &i.CrawledAt, &i.FetchStatus,
		&i.ErrorCategory, &i.ErrorCode, &i.FetchError, &i.ReadAt, &i.CreatedAt)
	i.ProjectID = none(project)
	if i.CrawledAt != nil {
		*i.CrawledAt = i.CrawledAt.UTC()
	}
	i.ReadAt, i.CreatedAt = i.ReadAt.UTC(), i.CreatedAt.UTC()
	return i, err
}

// none is a text, and null for an empty one.
func none(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// place is which item of which batch it is.
func (i *CrawledItem) place() itemPlace { return itemPlace{i.JobID, i.BatchIndex, i.Position} }

type itemPlace struct {
	job             string
	batch, position uint32
}

// BatchItemRequest are the parameters of GET /batch-items/{content_id}.
type BatchItemRequest struct {
	httpapi.Params
	ContentID string `path:"content_id" doc:"The item's content_id. A slash in it is written %2F" example:"7312345678901234567"`
	Content   bool   `query:"content" doc:"With the whole item as it was read, and the details of its error"`
}

// Resolve implements huma.Resolver.
func (r *BatchItemRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(*Handler) (f reads.Faults) {
		checkText(&f, "content_id", r.ContentID, batches.MaxContentID)
		return f
	})
}

// BatchItem is the newest crawl of an item.
type BatchItem struct {
	CrawledItem
	Content      json.RawMessage `json:"content,omitempty" doc:"Where asked for: the item as it was read; a string of what is not JSON"`
	ErrorDetails json.RawMessage `json:"error_details,omitempty" doc:"Where asked for: a JSON value, or null"`
	History      []CrawledItem   `json:"history" nullable:"false" doc:"Outcomes before that a retry replaced, the newest first"`
	Others       []CrawledItem   `json:"others" nullable:"false" doc:"Other items with this content_id, in this batch or others, the newest crawl first; those without crawled_at last"`
	More         bool            `json:"more" doc:"Whether there are others beyond the 1,000 that are listed"`
}

// mostOthers is how many other items with one content id are listed, and mostOutcomes how
// many of their outcomes are read, the newest crawls first.
const (
	mostOthers   = 1_000
	mostOutcomes = 5_000
)

func (h *Handler) item(ctx context.Context, r BatchItemRequest) (out BatchItem, err error) {
	all, err := h.crawls(ctx, r.ContentID)
	if err != nil {
		return out, err
	}
	if len(all) == 0 {
		return out, endpoint.NotFound("content_id", "must be that of an item of a batch that has been read")
	}
	out = newBatchItem(all)
	if r.Content {
		err = h.content(ctx, &out)
	}
	return out, err
}

// crawls returns the outcomes of items with a content id, those of the newest crawls.
func (h *Handler) crawls(ctx context.Context, id string) (all []CrawledItem, err error) {
	if h.Index != nil {
		if rows, ok := h.Index.Lookup(ctx, id, mostOutcomes); ok {
			for i := range rows {
				all = append(all, crawledItem(&rows[i]))
			}
			return all, nil
		}
	}
	return reads.Rows(ctx, h.set, "item.sql", reads.Params{"id": id, "limit": mostOutcomes}, scanItem)
}

func crawledItem(r *itemindex.Row) CrawledItem {
	return CrawledItem{
		JobID: r.Job, BatchIndex: r.Batch, Position: r.Position, ProjectID: none(r.Project), Platform: r.Platform,
		TaskType: r.Task, KeywordSource: r.Keyword, PipelineVersion: r.Pipeline, ContentID: r.ContentID,
		Permalink: r.Permalink, CrawledAt: r.CrawledAt, FetchStatus: r.Status, ErrorCategory: r.Category,
		ErrorCode: r.Code, FetchError: r.Message, Attempts: r.Version, ReadAt: r.ReadAt, CreatedAt: r.CreatedAt,
	}
}

// newBatchItem tells the outcomes that count from those that they replaced, and the newest
// crawl from the others.
func newBatchItem(all []CrawledItem) BatchItem {
	slices.SortFunc(all, func(a, b CrawledItem) int { return cmp.Compare(b.Attempts, a.Attempts) })
	outcomes := map[itemPlace][]CrawledItem{} // of each item, the one that counts first
	for _, i := range all {
		outcomes[i.place()] = append(outcomes[i.place()], i)
	}
	counting := make([]CrawledItem, 0, len(outcomes))
	for _, of := range outcomes {
		counting = append(counting, of[0])
	}
	slices.SortFunc(counting, newerFirst)
	newest, others := counting[0], counting[1:]
	return BatchItem{
		CrawledItem: newest, History: outcomes[newest.place()][1:], Others: others[:min(len(others), mostOthers)],
		More: len(others) > mostOthers || len(all) == mostOutcomes,
	}
}

// newerFirst is the order of crawls. Those without a time are last.
func newerFirst(a, b CrawledItem) int {
	at := func(i CrawledItem) time.Time {
		if i.CrawledAt == nil {
			return time.Time{}
		}
		return *i.CrawledAt
	}
	return cmp.Or(at(b).Compare(at(a)), b.ReadAt.Compare(a.ReadAt), cmp.Compare(a.JobID, b.JobID),
		cmp.Compare(a.BatchIndex, b.BatchIndex), cmp.Compare(a.Position, b.Position))
}

// content adds what only the outcome itself has.
func (h *Handler) content(ctx context.Context, out *BatchItem) error {
	p := reads.Params{"job": out.JobID, "batch": out.BatchIndex, "position": out.Position, "version": out.Attempts}
	return h.set.Each(ctx, "content.sql", p, func(rows driver.Rows) error {
		var content, details string
		err := rows.Scan(&content, &details)
		out.ErrorDetails = document(details)
		out.Content = json.RawMessage(content)
		if err == nil && !json.Valid(out.Content) {
			out.Content, err = json.Marshal(content)
		}
		return err
	})
}

// BatchItemsRequest are the parameters of GET /batches/{job_id}/{batch_index}/items.
type BatchItemsRequest struct {
	httpapi.Params
	OfBatch
	reads.Page
	Status string `query:"fetch_status" enum:"success,error" doc:"Only items with this outcome"`
	after  reads.Pair
}

// Resolve implements huma.Resolver.
func (r *BatchItemsRequest) Resolve(ctx huma.Context) []error {
	return append(reads.Resolve(ctx, r.Params, r.check), endpoint.Faults(itemCursor.Read(r.Cursor, &r.after))...)
}

// CrawledItemPage is a page of the items of a batch.
type CrawledItemPage struct{ reads.List[CrawledItem] }

func (h *Handler) items(ctx context.Context, r BatchItemsRequest) (page CrawledItemPage, err error) {
	id := r.id(&reads.Faults{})
	f := itemFilter{job: id.Job, batch: int64(id.Index), status: r.Status, limit: r.Limit + 1}
	if r.Cursor != "" {
		f.after = &CrawledItem{JobID: id.Job, BatchIndex: uint32(id.Index), Position: uint32(min(r.after[0], math.MaxUint32))}
	}
	all, err := h.outcomes(ctx, f)
	page.List = reads.ListOf(itemCursor, all, r.Limit, func(i CrawledItem) reads.Pair {
		return reads.Pair{uint64(i.Position)}
	})
	return page, err
}

// itemFilter selects items. The zero value of a field does not filter.
type itemFilter struct {
	job, project, status string
	batch                int64        // negative: any
	after                *CrawledItem // the last one of the page before
	limit                int
}

// outcomes returns the outcomes that count of items, in the order of their batches.
func (h *Handler) outcomes(ctx context.Context, f itemFilter) ([]CrawledItem, error) {
	p := reads.Params{
		"job": f.job, "project": f.project, "status": f.status, "batch": f.batch, "limit": f.limit, "first": f.after == nil,
		"after_job": "", "after_batch": 0, "after_position": 0,
	}
	if f.after != nil {
		p["after_job"], p["after_batch"], p["after_position"] = f.after.JobID, f.after.BatchIndex, f.after.Position
	}
	return reads.Rows(ctx, h.set, "items.sql", p, scanItem)
}

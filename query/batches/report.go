package batches

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/query/reads"
)

// reportPage is how many items of a report are read at one time.
const reportPage = 5_000

// BatchReportRequest are the parameters of GET /batches/report.
type BatchReportRequest struct {
	httpapi.Params
	JobID     string `query:"job_id" doc:"The items of this job" example:"proj_xyz-brand-0"`
	Index     int64  `query:"batch_index" minimum:"-1" maximum:"2147483647" default:"-1" doc:"With job_id: the items of this batch alone; -1: of all"`
	ProjectID string `query:"project_id" doc:"The items of this project" example:"proj_xyz"`
	Status    string `query:"fetch_status" enum:"success,error" doc:"Only items with this outcome"`
	reads.Format
}

// Resolve implements huma.Resolver.
func (r *BatchReportRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(*Handler) (f reads.Faults) {
		checkName(&f, "job_id", r.JobID)
		checkName(&f, "project_id", r.ProjectID)
		switch {
		case r.JobID == "" && r.ProjectID == "":
			f.Add(reads.Broken("job_id", "missing", "is required, unless project_id is given"))
		case r.JobID == "" && r.Index >= 0:
			f.Add(reads.Broken("batch_index", "alone", "must be given with job_id"))
		}
		return f
	})
}

// report answers with the outcomes that count of all items. It reads them in pages, so that
// neither memory nor the time of a query grows with their number.
func (h *Handler) report(ctx context.Context, r BatchReportRequest) (reads.File, error) {
	f := itemFilter{
		job: r.JobID, batch: min(r.Index, math.MaxInt32), project: r.ProjectID, status: r.Status, limit: reportPage,
	}
	if err := h.checkReported(ctx, r); err != nil {
		return reads.File{}, err
	}
	next := func(ctx context.Context) ([]CrawledItem, bool, error) {
		page, err := h.outcomes(ctx, f)
		if len(page) > 0 {
			f.after = &page[len(page)-1]
		}
		return page, len(page) == reportPage, err
	}
	return reportTable.File(r.Format, time.Now(), next), nil
}

// checkReported refuses the report of what no batch is of: an empty file could be taken for
// one of a job without errors.
func (h *Handler) checkReported(ctx context.Context, r BatchReportRequest) error {
	c := BatchSelection{JobID: r.JobID, ProjectID: r.ProjectID}.conditions()
	field, of := "job_id", "a job"
	if r.JobID == "" {
		field, of = "project_id", "a project"
	}
	if r.Index >= 0 {
		c.add("batch_index = $", r.Index)
		field, of = "batch_index", "a batch of the job"
	}
	var known bool
	err := h.Postgres.QueryRow(ctx, "SELECT EXISTS (SELECT FROM millrace.batch "+c.text+")", c.args...).Scan(&known)
	if err == nil && !known {
		return endpoint.NotFound(field, fmt.Sprintf("must be that of %s that has been read", of))
	}
	return h.postgres("look for the batches of a report", err)
}

// reportTable is how items are reported.
var reportTable = reads.Table[CrawledItem, parquetItem]{
	Name: "report",
	Columns: []string{ // as the fields of the JSON are called
		"job_id", "batch_index", "position", "project_id", "platform", "task_type", "keyword_source", "pipeline_version",
		"content_id", "permalink", "crawled_at", "fetch_status", "error_category", "error_code", "fetch_error", "attempts",
		"read_at", "created_at",
	},
	Cells: func(i CrawledItem) ([]string, error) {
		return []string{
			tabular.EscapeCell(i.JobID), number(i.BatchIndex), number(i.Position), tabular.EscapeCell(textOf(i.ProjectID)),
			tabular.EscapeCell(i.Platform), tabular.EscapeCell(i.TaskType), tabular.EscapeCell(i.KeywordSource),
			tabular.EscapeCell(i.PipelineVersion), tabular.EscapeCell(i.ContentID), tabular.EscapeCell(i.Permalink),
			reads.TimeCell(i.CrawledAt), i.FetchStatus, i.ErrorCategory, tabular.EscapeCell(i.ErrorCode), tabular.EscapeCell(i.FetchError),
			number(i.Attempts), reads.TimeCell(&i.ReadAt), reads.TimeCell(&i.CreatedAt),
		}, nil
	},
	Parquet: func(i CrawledItem) parquetItem {
		return parquetItem{
			JobID: i.JobID, BatchIndex: i.BatchIndex, Position: i.Position, ProjectID: textOf(i.ProjectID),
			Platform: i.Platform, TaskType: i.TaskType, KeywordSource: i.KeywordSource, PipelineVersion: i.PipelineVersion,
			ContentID: i.ContentID, Permalink: i.Permalink, CrawledAt: i.CrawledAt, FetchStatus: i.FetchStatus,
			ErrorCategory: i.ErrorCategory, ErrorCode: i.ErrorCode, FetchError: i.FetchError, Attempts: i.Attempts,
			ReadAt: i.ReadAt, CreatedAt: i.CreatedAt,
		}
	},
}

func number[N uint32 | uint64](n N) string { return strconv.FormatUint(uint64(n), 10) }

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// parquetItem is a row of Parquet. No text is optional: v0.32.0 of the library panics on
// their levels.
type parquetItem struct {
	JobID           string     `parquet:"job_id,dict"`
	BatchIndex      uint32     `parquet:"batch_index"`
	Position        uint32     `parquet:"position"`
	ProjectID       string     `parquet:"project_id,dict"`
	Platform        string     `parquet:"platform,dict"`
	TaskType        string     `parquet:"task_type,dict"`
	KeywordSource   string     `parquet:"keyword_source,dict"`
	PipelineVersion string     `parquet:"pipeline_version,dict"`
	ContentID       string     `parquet:"content_id"`
	Permalink       string     `parquet:"permalink"`
	CrawledAt       *time.Time `parquet:"crawled_at,optional,timestamp(nanosecond)"`
	FetchStatus     string     `parquet:"fetch_status,dict"`
	ErrorCategory   string     `parquet:"error_category,dict"`
	ErrorCode       string     `parquet:"error_code,dict"`
	FetchError      string     `parquet:"fetch_error"`
	Attempts        uint64     `parquet:"attempts"`
	ReadAt          time.Time  `parquet:"read_at,timestamp(nanosecond)"`
	CreatedAt       time.Time  `parquet:"created_at,timestamp(nanosecond)"`
}

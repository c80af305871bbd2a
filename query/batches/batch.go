package batches

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/batches"
)

// CrawlBatch is a batch of crawled items. OK, Error and Retrying add up to ContentCount.
type CrawlBatch struct {
	JobID          string         `json:"job_id" example:"proj_xyz-brand-0"`
	BatchIndex     int32          `json:"batch_index" example:"1"`
	ProjectID      *string        `json:"project_id" doc:"The project that the name of the job says; null: a dry run, or none" example:"proj_xyz"`
	Platform       string         `json:"platform" doc:"As announced; empty: not said" example:"tiktok"`
	TaskType       string         `json:"task_type" doc:"As announced; empty: not said" example:"research_and_crawl"`
	Keyword        string         `json:"keyword" doc:"As announced; empty: not said" example:"VinFast VF8"`
	Format         string         `json:"format" enum:"event,legacy,inline,notification" doc:"How it was announced"`
	Bucket         *string        `json:"bucket" doc:"Of the object that had the items; null: the message had them"`
	Key            *string        `json:"key" doc:"Of the object that had the items; null: the message had them"`
	AnnouncedCount *int32         `json:"announced_count" doc:"How many items the message announced; null: it did not say"`
	ContentCount   int32          `json:"content_count" doc:"How many items it has: ok, error and retrying together"`
	OK             int32          `json:"ok" doc:"Items that were crawled"`
	Error          int32          `json:"error" doc:"Items that are errors, and are not tried again"`
	Retrying       int32          `json:"retrying" doc:"Items that are errors, and are tried again"`
	State          string         `json:"state" enum:"succeeded,partial,failed,retrying,empty" doc:"retrying: some items are tried again; failed: every item is an error; partial: some are; succeeded: none is; empty: there are none"`
	Errors         []CodeCount    `json:"errors" nullable:"false" doc:"Items that are errors at present by code, those that are tried again among them; the most frequent first"`
	Warnings       []BatchWarning `json:"warnings" nullable:"false" doc:"What is unusual about it. It fails nothing"`
	Conflict       *BatchConflict `json:"conflict" doc:"The first other content that came for the batch, and does not count; null: none"`
	ContentHash    string         `json:"content_hash" doc:"SHA-256 of the content that counts, after decompression, in hexadecimal digits"`
	AnnouncedAt    time.Time      `json:"announced_at"`
	ReadAt         time.Time      `json:"read_at"`
	ChangedAt      time.Time      `json:"changed_at"`

	seq int64
}

// CodeCount is how many items have an error code.
type CodeCount struct {
	Code     string           `json:"code" example:"RATE_LIMITED"`
	Category batches.Category `json:"category" enum:"rate_limiting,content,network,parsing,media,storage,generic"`
	Count    int64            `json:"count"`
}

// BatchWarning says what is unusual about a batch.
type BatchWarning struct {
	Code string `json:"code" example:"count_announced"`
	Text string `json:"text"`
}

// BatchConflict is other content that came for a batch.
type BatchConflict struct {
	At           time.Time `json:"at"`
	ContentHash  string    `json:"content_hash"`
	ContentCount int64     `json:"content_count"`
	Object       string    `json:"object,omitempty" doc:"Where it was; absent: in the message"`
	Seq          uint64    `json:"seq"`
}

// stateSQL is the state of a batch: none that has failures succeeded.
const stateSQL = `CASE WHEN retrying > 0 THEN 'retrying' WHEN content_count = 0 THEN 'empty'
	WHEN error = content_count THEN 'failed' WHEN error > 0 THEN 'partial' ELSE 'succeeded' END`

const selectBatches = `SELECT job_id, batch_index, project_id, platform, task_type, keyword, format, bucket, object_key,
	announced, content_count, ok, error, retrying, ` + stateSQL + `, errors, warnings, conflict, content_hash,
	announced_at, read_at, changed_at, seq FROM millrace.batch `

func scanBatch(row pgx.CollectableRow) (b CrawlBatch, err error) {
	var hash []byte
	codes := map[string]int64{}
	err = row.Scan(&b.JobID, &b.BatchIndex, &b.ProjectID, &b.Platform, &b.TaskType, &b.Keyword, &b.Format, &b.Bucket,
		&b.Key, &b.AnnouncedCount, &b.ContentCount, &b.OK, &b.Error, &b.Retrying, &b.State, &codes, &b.Warnings,
		&b.Conflict, &hash, &b.AnnouncedAt, &b.ReadAt, &b.ChangedAt, &b.seq)
	if b.Warnings == nil {
		b.Warnings = []BatchWarning{}
	}
	b.Errors, b.ContentHash = codeCounts(codes), hex.EncodeToString(hash)
	b.AnnouncedAt, b.ReadAt, b.ChangedAt = b.AnnouncedAt.UTC(), b.ReadAt.UTC(), b.ChangedAt.UTC()
	return b, err
}

// codeCounts lists codes that items have at present, the most frequent first.
func codeCounts(codes map[string]int64) []CodeCount {
	all := make([]CodeCount, 0, len(codes))
	for code, n := range codes {
		if n > 0 {
			all = append(all, CodeCount{code, batches.CategoryOf(code), n})
		}
	}
	slices.SortFunc(all, func(a, b CodeCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code))
	})
	return all
}

// BatchSelection are the parameters that select batches. Those that are empty do not filter.
type BatchSelection struct {
	JobID     string `query:"job_id" doc:"Only batches of this job" example:"proj_xyz-brand-0"`
	ProjectID string `query:"project_id" doc:"Only batches of this project" example:"proj_xyz"`
	Platform  string `query:"platform" doc:"Only batches of this platform, as announced" example:"tiktok"`
	State     string `query:"state" enum:"succeeded,partial,failed,retrying,empty" doc:"Only batches in this state"`
	Noted     string `query:"noted" enum:"warnings,conflict" doc:"Only batches with warnings, or with other content than counts"`
	Span
}

func (s BatchSelection) check(*Handler) (f reads.Faults) {
	checkName(&f, "job_id", s.JobID)
	checkName(&f, "project_id", s.ProjectID)
	checkName(&f, "platform", s.Platform)
	s.Span.check(&f)
	return f
}

// conditions are those of a statement, whose arguments they number.
type conditions struct {
	text string
	args []any
}

// add adds one, whose argument is written $.
func (c *conditions) add(text string, args ...any) {
	word := " AND "
	if c.text == "" {
		word = "WHERE "
	}
	c.text += word
	for i := 0; i < len(text); i++ {
		c.text += text[i : i+1]
		if text[i] == '$' {
			c.args = append(c.args, args[0])
			args = args[1:]
			c.text += fmt.Sprint(len(c.args))
		}
	}
}

func (s BatchSelection) conditions() (c conditions) {
	for _, filter := range [...][2]string{
		{"job_id = $", s.JobID},
		{"project_id = $", s.ProjectID},
		{"platform = $", s.Platform},
		{stateSQL + " = $", s.State},
	} {
		if filter[1] != "" {
			c.add(filter[0], filter[1])
		}
	}
	switch s.Noted {
	case "warnings":
		c.add("warnings <> '[]'")
	case "conflict":
		c.add("conflict IS NOT NULL")
	}
	if !s.From.IsZero() {
		c.add("read_at >= $", s.From.Time)
	}
	if !s.To.IsZero() {
		c.add("read_at < $", s.To.Time)
	}
	return c
}

// BatchesRequest are the parameters of GET /batches.
type BatchesRequest struct {
	httpapi.Params
	BatchSelection
	reads.Page
	after reads.Pair
}

// Resolve implements huma.Resolver.
func (r *BatchesRequest) Resolve(ctx huma.Context) []error {
	return append(reads.Resolve(ctx, r.Params, r.check), endpoint.Faults(batchCursor.Read(r.Cursor, &r.after))...)
}

// CrawlBatchPage is a page of batches.
type CrawlBatchPage struct{ reads.List[CrawlBatch] }

func (h *Handler) list(ctx context.Context, r BatchesRequest) (answer CrawlBatchPage, err error) {
	c := r.conditions()
	if r.Cursor != "" {
		c.add("(read_at, seq) < ($, $)", time.UnixMicro(int64(r.after[0])), int64(r.after[1]))
	}
	all, err := page(ctx, h.Postgres, c, r.Limit+1)
	answer.List = reads.ListOf(batchCursor, all, r.Limit, func(b CrawlBatch) reads.Pair {
		return reads.Pair{uint64(b.ReadAt.UnixMicro()), uint64(b.seq)}
	})
	return answer, h.postgres("list batches", err)
}

// querier is a pool, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// page returns the batches that were read last, of those that meet conditions.
func page(ctx context.Context, from querier, c conditions, most int) ([]CrawlBatch, error) {
	rows, _ := from.Query(ctx, selectBatches+c.text+fmt.Sprintf(" ORDER BY read_at DESC, seq DESC LIMIT %d", most),
		c.args...)
	return pgx.CollectRows(rows, scanBatch)
}

// BatchRequest names a batch.
type BatchRequest struct {
	httpapi.Params
	OfBatch
}

// Resolve implements huma.Resolver.
func (r *BatchRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, r.check)
}

func (h *Handler) one(ctx context.Context, r BatchRequest) (b CrawlBatch, err error) {
	id := r.id(&reads.Faults{})
	rows, _ := h.Postgres.Query(ctx, selectBatches+"WHERE job_id = $1 AND batch_index = $2", id.Job, id.Index)
	b, err = pgx.CollectExactlyOneRow(rows, scanBatch)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, endpoint.NotFound("batch_index", "must be that of a batch of the job that has been read")
	}
	return b, h.postgres("read a batch", err)
}

// document returns JSON as it is, and null for what is none.
func document(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

package clickhouse

import (
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/schemas/batches"
)

// Outcome is what a row of the table item_outcomes has beside the item.
type Outcome struct {
	Batch             batches.ID
	Project, Platform string
	Seq               uint64
	ReadAt            time.Time
	Version           int       // 0: as the batch has brought it; more: the outcome of a retry
	CreatedAt         time.Time // when the outcome came
}

// OutcomeBlock collects rows of the table item_outcomes, and of item_errors. It is not safe
// for concurrent use.
type OutcomeBlock struct {
	errors                                        bool // rows are of item_errors
	job, id, permalink, message, details, content texts
	project, platform, task, keyword, pipeline    lowCard
	category, code                                lowCard
	index, position                               proto.ColUInt32
	version, seq                                  proto.ColUInt64
	crawledAt                                     nullableTime
	status                                        status
	removed                                       proto.ColUInt8
	readAt, createdAt                             nanoTime
}

// NewOutcomeBlock returns an empty block of item_outcomes.
func NewOutcomeBlock() *OutcomeBlock {
	b := new(OutcomeBlock)
	for _, c := range []*lowCard{
		&b.project, &b.platform, &b.task, &b.keyword, &b.pipeline, &b.category, &b.code,
	} {
		c.init()
	}
	b.crawledAt.Values = new(proto.ColInt64)
	return b
}

// NewErrorBlock returns an empty block of item_errors.
func NewErrorBlock() *OutcomeBlock {
	b := NewOutcomeBlock()
	b.errors = true
	return b
}

// Table is the table that the rows are of.
func (b *OutcomeBlock) Table() string {
	if b.errors {
		return "item_errors"
	}
	return "item_outcomes"
}

// Append adds an outcome of the item at a position of a batch.
func (b *OutcomeBlock) Append(of *Outcome, position int, item *batches.Item, task, keyword string) {
	b.job.append([]byte(of.Batch.Job))
	b.index.Append(uint32(of.Batch.Index))
	b.position.Append(uint32(position))
	b.version.Append(uint64(of.Version))
	b.project.append([]byte(of.Project))
	b.platform.append([]byte(of.Platform))
	b.task.append([]byte(task))
	b.keyword.append([]byte(keyword))
	b.pipeline.append([]byte(item.Pipeline))
	b.id.append([]byte(item.ContentID))
	b.permalink.append([]byte(item.Permalink))
	b.crawledAt.append(item.CrawledAt)
	b.status.append(item.OK())
	b.category.append([]byte(item.Category))
	b.code.append([]byte(errorCode(item)))
	b.message.append([]byte(item.Message))
	b.details.append(item.Details)
	if !b.errors {
		b.content.append(item.Content)
	}
	b.readAt.Append(of.ReadAt.UnixNano())
	b.createdAt.Append(of.CreatedAt.UnixNano())
	b.removed.Append(0)
	if item.OK() {
		b.removed[len(b.removed)-1] = 1
	}
	b.seq.Append(of.Seq)
}

// errorCode is empty for a success, whatever the item says.
func errorCode(item *batches.Item) string {
	if item.OK() {
		return ""
	}
	return item.Code
}

// Rows returns how many rows the block holds.
func (b *OutcomeBlock) Rows() int { return b.seq.Rows() }

// Input returns the block's columns for an insert.
func (b *OutcomeBlock) Input() proto.Input {
	both := proto.Input{
		{Name: "job_id", Data: &b.job},
		{Name: "batch_index", Data: &b.index},
		{Name: "position", Data: &b.position},
		{Name: "version", Data: &b.version},
		{Name: "project_id", Data: &b.project},
		{Name: "platform", Data: &b.platform},
		{Name: "content_id", Data: &b.id},
		{Name: "permalink", Data: &b.permalink},
		{Name: "error_category", Data: &b.category},
		{Name: "error_code", Data: &b.code},
		{Name: "error_details", Data: &b.details},
		{Name: "read_at", Data: &b.readAt},
		{Name: "created_at", Data: &b.createdAt},
		{Name: "seq", Data: &b.seq},
	}
	if b.errors {
		return append(both, proto.InputColumn{Name: "error_message", Data: &b.message},
			proto.InputColumn{Name: "removed", Data: &b.removed})
	}
	return append(both,
		proto.InputColumn{Name: "task_type", Data: &b.task},
		proto.InputColumn{Name: "keyword_source", Data: &b.keyword},
		proto.InputColumn{Name: "pipeline_version", Data: &b.pipeline},
		proto.InputColumn{Name: "crawled_at", Data: &b.crawledAt},
		proto.InputColumn{Name: "fetch_status", Data: &b.status},
		proto.InputColumn{Name: "fetch_error", Data: &b.message},
		proto.InputColumn{Name: "content", Data: &b.content})
}

// nullableTime is a Nullable(DateTime64(9, 'UTC')) column in which the zero time is null.
type nullableTime struct{ proto.ColNullable[int64] }

func (nullableTime) Type() proto.ColumnType { return "Nullable(DateTime64(9, 'UTC'))" }

func (c *nullableTime) append(at time.Time) {
	if at.IsZero() {
		c.Append(proto.Null[int64]())
		return
	}
	c.Append(proto.NewNullable(at.UnixNano()))
}

// status is the column fetch_status.
type status struct{ proto.ColInt8 }

func (status) Type() proto.ColumnType { return "Enum8('success' = 1, 'error' = 2)" }

func (c *status) append(ok bool) {
	if ok {
		c.Append(1)
		return
	}
	c.Append(2)
}

package clickhouse

import (
	"math"
	"slices"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// EventBlock collects rows of the events table, column by column. Appending
// copies what it takes, and allocates only for new dictionary values and while
// the columns grow. It is not safe for concurrent use.
type EventBlock struct {
	seq           proto.ColUInt64
	occurredAt    nanoTime
	receivedAt    nanoTime
	stage         lowCard
	source        lowCard
	service       lowCard
	domain        lowCard
	articleURL    texts
	articleHash   proto.ColFixedStr
	canonicalURL  texts
	traceID       texts
	key           texts
	identity      proto.ColFixedStr
	metadata      texts
	schemaVersion proto.ColUInt16
	quality       nullableFloat
	topics        lowCardArray
	modelVersion  lowCard
	contentType   lowCard
	channel       lowCard
	reclassified  proto.ColBool
	duplicate     proto.ColBool
	backfilled    proto.ColBool
}

// NewEventBlock returns an empty block.
func NewEventBlock() *EventBlock {
	b := new(EventBlock)
	for _, c := range b.lowCards() {
		c.init()
	}
	b.topics.values.init()
	b.articleHash.Size, b.identity.Size = 32, 16
	b.quality.Values = new(proto.ColFloat64)
	return b
}

// Grow makes room for as many rows of a usual size, so that they are not moved
// about while the block fills.
func (b *EventBlock) Grow(rows int) {
	const url, metadata = 100, 160 // bytes
	b.seq = slices.Grow(b.seq, rows)
	for _, c := range []*nanoTime{&b.occurredAt, &b.receivedAt} {
		c.ColInt64 = slices.Grow(c.ColInt64, rows)
	}
	b.articleURL.grow(rows, url)
	b.metadata.grow(rows, metadata)
	for _, c := range []*texts{&b.canonicalURL, &b.traceID, &b.key} {
		c.grow(rows, 0) // most are empty
	}
	b.articleHash.Buf = slices.Grow(b.articleHash.Buf, rows*b.articleHash.Size)
	b.identity.Buf = slices.Grow(b.identity.Buf, rows*b.identity.Size)
}

func (b *EventBlock) lowCards() []*lowCard {
	return []*lowCard{&b.stage, &b.source, &b.service, &b.domain, &b.modelVersion, &b.contentType, &b.channel}
}

// Append adds a row. seq is the event's place in its stream and received the
// time at which the stream got it, in Unix nanoseconds.
func (b *EventBlock) Append(seq uint64, received int64, r *event.Record, id event.Identity) {
	b.seq.Append(seq)
	b.occurredAt.Append(r.OccurredAt)
	b.receivedAt.Append(received)
	b.stage.append(r.Stage)
	b.source.append(r.SourceName)
	b.service.append(r.ServiceName)
	b.domain.append(r.Domain)
	b.articleURL.append(r.ArticleURL)
	b.articleHash.Append(r.URLHash[:])
	b.canonicalURL.append(r.CanonicalURL)
	b.traceID.append(r.TraceID)
	b.key.append(r.IdempotencyKey)
	b.identity.Append(id[:])
	b.metadata.append(r.Metadata)
	b.schemaVersion.Append(r.MetadataSchemaVersion)
	b.quality.append(r.Meta.QualityScore)
	b.topics.append(r.Meta.Topics)
	b.modelVersion.append(r.Meta.ModelVersion)
	b.contentType.append(r.Meta.ContentType)
	b.channel.append(r.Meta.Channel)
	b.reclassified.Append(r.Meta.IsReclassification)
	b.duplicate.Append(r.Meta.IsDuplicate)
	b.backfilled.Append(r.Meta.Backfilled)
}

// Rows returns how many rows the block holds.
func (b *EventBlock) Rows() int { return b.seq.Rows() }

// Room returns how many rows the block has memory for.
func (b *EventBlock) Room() int { return cap(b.seq) }

// Seq returns the stream sequence of row i.
func (b *EventBlock) Seq(i int) uint64 { return b.seq[i] }

// Received returns when the stream got row i, in Unix nanoseconds.
func (b *EventBlock) Received(i int) int64 { return b.receivedAt.Row(i) }

// Article returns the stage and the article_hash of row i.
func (b *EventBlock) Article(i int) (stage string, hash [32]byte) {
	return string(b.stage.row(i)), [32]byte(b.articleHash.Row(i))
}

// Bounds returns the earliest and the latest occurred_at in Unix nanoseconds.
// The block must not be empty.
func (b *EventBlock) Bounds() (first, last int64) {
	first, last = math.MaxInt64, math.MinInt64
	for _, t := range b.occurredAt.ColInt64 {
		first, last = min(first, t), max(last, t)
	}
	return first, last
}

// Bytes returns about how much memory the block's rows take.
func (b *EventBlock) Bytes() int {
	return len(b.articleURL.buf) + len(b.metadata.buf) + len(b.key.buf) + len(b.canonicalURL.buf) + 160*b.Rows()
}

// Select returns a copy that has the rows that keep tells.
func (b *EventBlock) Select(keep func(row int) bool) *EventBlock {
	out := NewEventBlock()
	out.Grow(b.Rows())
	for i := range b.seq {
		if keep(i) {
			b.copyRow(out, i)
		}
	}
	return out
}

func (b *EventBlock) copyRow(out *EventBlock, i int) {
	r := event.Record{
		ArticleURL: b.articleURL.row(i), SourceName: b.source.row(i), Stage: b.stage.row(i),
		ServiceName:    b.service.row(i),
		IdempotencyKey: b.key.row(i), TraceID: b.traceID.row(i), CanonicalURL: b.canonicalURL.row(i),
		Metadata: b.metadata.row(i), OccurredAt: b.occurredAt.Row(i), MetadataSchemaVersion: b.schemaVersion[i],
		URLHash: [32]byte(b.articleHash.Row(i)), Domain: b.domain.row(i),
		Meta: event.Metadata{
			QualityScore: math.NaN(), Topics: b.topics.row(i), ModelVersion: b.modelVersion.row(i),
			ContentType: b.contentType.row(i),
			Channel:     b.channel.row(i), IsReclassification: b.reclassified[i], IsDuplicate: b.duplicate[i],
			Backfilled: b.backfilled[i],
		},
	}
	if q := b.quality.Row(i); q.Set {
		r.Meta.QualityScore = q.Value
	}
	out.Append(b.seq[i], b.receivedAt.Row(i), &r, event.Identity(b.identity.Row(i)))
}

// Reset empties the block and keeps its memory.
func (b *EventBlock) Reset() {
	for _, c := range b.lowCards() {
		c.reset()
	}
	for _, c := range b.Input() {
		if r, ok := c.Data.(proto.Resettable); ok {
			r.Reset()
		}
	}
	b.topics.reset()
}

// Input returns the block's columns for an insert.
func (b *EventBlock) Input() proto.Input {
	return proto.Input{
		{Name: "seq", Data: &b.seq},
		{Name: "occurred_at", Data: &b.occurredAt},
		{Name: "received_at", Data: &b.receivedAt},
		{Name: "stage", Data: &b.stage},
		{Name: "source_name", Data: &b.source},
		{Name: "service_name", Data: &b.service},
		{Name: "domain", Data: &b.domain},
		{Name: "article_url", Data: &b.articleURL},
		{Name: "article_hash", Data: &b.articleHash},
		{Name: "canonical_url", Data: &b.canonicalURL},
		{Name: "trace_id", Data: &b.traceID},
		{Name: "idempotency_key", Data: &b.key},
		{Name: "identity", Data: &b.identity},
		{Name: "metadata", Data: &b.metadata},
		{Name: "metadata_schema_version", Data: &b.schemaVersion},
		{Name: "quality_score", Data: &b.quality},
		{Name: "topics", Data: &b.topics},
		{Name: "model_version", Data: &b.modelVersion},
		{Name: "content_type", Data: &b.contentType},
		{Name: "channel", Data: &b.channel},
		{Name: "is_reclassification", Data: &b.reclassified},
		{Name: "is_duplicate", Data: &b.duplicate},
		{Name: "backfilled", Data: &b.backfilled},
	}
}

// nanoTime is a DateTime64(9, 'UTC') column of Unix nanoseconds.
type nanoTime struct{ proto.ColInt64 }

func (nanoTime) Type() proto.ColumnType { return "DateTime64(9, 'UTC')" }

// nullableFloat is a Nullable(Float64) column in which NaN stands for null.
type nullableFloat struct{ proto.ColNullable[float64] }

func (c *nullableFloat) append(f float64) {
	if math.IsNaN(f) {
		c.Append(proto.Null[float64]())
		return
	}
	c.Append(proto.NewNullable(f))
}

// FunnelBlock collects rows of the funnel table. It is not safe for
// concurrent use.
type FunnelBlock struct {
	width    proto.ColUInt32
	bucket   proto.ColDateTime
	source   lowCard
	stage    lowCard
	group    proto.ColUInt32
	recent   proto.ColUInt8
	events   proto.ColUInt64
	articles texts
	seq      proto.ColUInt64
	scratch  []byte
}

// NewFunnelBlock returns an empty block.
func NewFunnelBlock() *FunnelBlock {
	b := new(FunnelBlock)
	b.source.init()
	b.stage.init()
	return b
}

// Append adds the state of a row, folded up to seq by a slot group.
func (b *FunnelBlock) Append(key funnel.Key, group uint32, events uint64, articles *funnel.Set, seq uint64) error {
	set, err := articles.AppendBinary(b.scratch[:0])
	if err != nil {
		return err
	}
	b.scratch = set
	b.width.Append(uint32(key.Width))
	b.bucket.Data = append(b.bucket.Data, proto.DateTime(key.Bucket))
	b.source.append([]byte(key.Source))
	b.stage.append([]byte(key.Stage))
	b.group.Append(group)
	b.recent.Append(recentOf(key))
	b.events.Append(events)
	b.articles.append(set)
	b.seq.Append(seq)
	return nil
}

func recentOf(key funnel.Key) uint8 {
	if key.Recent {
		return 1
	}
	return 0
}

// Rows returns how many rows the block holds.
func (b *FunnelBlock) Rows() int { return b.width.Rows() }

// Bytes returns about how much memory the block's rows take.
func (b *FunnelBlock) Bytes() int { return len(b.articles.buf) + 40*b.Rows() }

// Reset empties the block and keeps its memory.
func (b *FunnelBlock) Reset() {
	b.source.reset()
	b.stage.reset()
	for _, c := range b.Input() {
		if r, ok := c.Data.(proto.Resettable); ok {
			r.Reset()
		}
	}
}

// Input returns the block's columns for an insert.
func (b *FunnelBlock) Input() proto.Input {
	return proto.Input{
		{Name: "width", Data: &b.width},
		{Name: "bucket", Data: &b.bucket},
		{Name: "source", Data: &b.source},
		{Name: "stage", Data: &b.stage},
		{Name: "slot_group", Data: &b.group},
		{Name: "recent", Data: &b.recent},
		{Name: "events", Data: &b.events},
		{Name: "article_set", Data: &b.articles},
		{Name: "seq", Data: &b.seq},
	}
}

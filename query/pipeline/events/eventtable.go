package events

import (
	"strconv"
	"time"

	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/query/reads"
)

// eventTable is how events are exported.
var eventTable = reads.Table[StoredEvent, parquetEvent]{
	Name: "events",
	Columns: []string{ // as the fields of a JSON event are called
		"seq", "occurred_at", "received_at", "stage", "source_name", "service_name", "article_url", "canonical_url",
		"url_hash", "domain", "trace_id", "idempotency_key", "metadata_schema_version", "metadata",
	},
	Cells: func(e StoredEvent) ([]string, error) {
		metadata, err := reads.JSONCell(e.Metadata)
		return []string{
			strconv.FormatUint(e.Seq, 10), reads.TimeCell(&e.OccurredAt), reads.TimeCell(&e.ReceivedAt),
			tabular.EscapeCell(e.Stage), tabular.EscapeCell(e.SourceName), tabular.EscapeCell(e.ServiceName), tabular.EscapeCell(e.ArticleURL),
			tabular.EscapeCell(e.CanonicalURL), e.URLHash, tabular.EscapeCell(e.Domain), tabular.EscapeCell(e.TraceID),
			tabular.EscapeCell(e.IdempotencyKey), strconv.FormatUint(uint64(e.MetadataSchemaVersion), 10), metadata,
		}, err
	},
	Parquet: func(e StoredEvent) parquetEvent {
		return parquetEvent{
			Seq: e.Seq, OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt, Stage: e.Stage, SourceName: e.SourceName,
			ServiceName: e.ServiceName, ArticleURL: e.ArticleURL, CanonicalURL: e.CanonicalURL, URLHash: e.URLHash,
			Domain: e.Domain, TraceID: e.TraceID, IdempotencyKey: e.IdempotencyKey,
			MetadataSchemaVersion: uint32(e.MetadataSchemaVersion), Metadata: string(e.Metadata),
		}
	},
}

// parquetEvent is a row of Parquet. No column is optional: v0.32.0 of the library
// panics on the levels of optional texts.
type parquetEvent struct {
	Seq                   uint64    `parquet:"seq"`
	OccurredAt            time.Time `parquet:"occurred_at,timestamp(nanosecond)"`
	ReceivedAt            time.Time `parquet:"received_at,timestamp(nanosecond)"`
	Stage                 string    `parquet:"stage,dict"`
	SourceName            string    `parquet:"source_name,dict"`
	ServiceName           string    `parquet:"service_name,dict"`
	ArticleURL            string    `parquet:"article_url"`
	CanonicalURL          string    `parquet:"canonical_url"`
	URLHash               string    `parquet:"url_hash"`
	Domain                string    `parquet:"domain,dict"`
	TraceID               string    `parquet:"trace_id"`
	IdempotencyKey        string    `parquet:"idempotency_key"`
	MetadataSchemaVersion uint32    `parquet:"metadata_schema_version"`
	Metadata              string    `parquet:"metadata,json"`
}

package plain

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"
)

// event is what encoding/json makes of an event.
type event struct {
	ArticleURL     string    `json:"article_url"`
	SourceName     string    `json:"source_name"`
	Stage          string    `json:"stage"`
	OccurredAt     time.Time `json:"occurred_at"`
	ServiceName    string    `json:"service_name"`
	IdempotencyKey string    `json:"idempotency_key"`
	TraceID        string    `json:"trace_id"`
	CanonicalURL   string    `json:"canonical_url"`
	SchemaVersion  uint16    `json:"metadata_schema_version"`

	Metadata json.RawMessage `json:"metadata"`
}

type metadata struct {
	QualityScore *float64 `json:"quality_score"`
	Topics       []string `json:"topics"`
	ModelVersion string   `json:"model_version"`
	ContentType  string   `json:"content_type"`
	Channel      string   `json:"channel"`
}

// Append adds a message's row to a batch: seq, occurred_at, received_at,
// stage, source_name, service_name, article_url, canonical_url, trace_id,
// idempotency_key, metadata, metadata_schema_version, quality_score, topics,
// model_version, content_type, channel, and what else the table has.
func Append(batch driver.Batch, m jetstream.Msg, more ...any) error {
	at, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	var e event
	if err := json.Unmarshal(m.Data(), &e); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	var meta metadata
	if len(e.Metadata) > 0 {
		if err := json.Unmarshal(e.Metadata, &meta); err != nil {
			return fmt.Errorf("decode: %w", err)
		}
	}
	row := []any{
		at.Sequence.Stream, e.OccurredAt, at.Timestamp, e.Stage, e.SourceName, e.ServiceName, e.ArticleURL,
		e.CanonicalURL, e.TraceID, e.IdempotencyKey, string(e.Metadata), e.SchemaVersion, meta.QualityScore,
		meta.Topics,
		meta.ModelVersion, meta.ContentType, meta.Channel,
	}
	return batch.Append(append(row, more...)...)
}

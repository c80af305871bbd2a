package event

import (
	"encoding/json"
	"time"
)

// Limits of an event's fields, in bytes of UTF-8 unless said otherwise.
const (
	MaxURL      = 2048
	MaxName     = 256 // source_name, service_name, trace_id
	MaxKey      = 512 // idempotency_key
	MaxMetadata = 64 << 10
	// MaxSize bounds a whole event as JSON text.
	MaxSize = 128 << 10
)

// The window in which occurred_at may lie, seen from the time at which the
// stream received the event.
const (
	ClockSkew = 5 * time.Second // how far in the future
	MaxAge    = 24 * time.Hour  // how far in the past, unless backfilled
	// LateAfter is the delay from which an event is reported as late.
	LateAfter = time.Hour
)

// Event is a pipeline event as a publisher builds it. Fields without
// omitempty are required.
type Event struct {
	ArticleURL  string    `json:"article_url"`
	SourceName  string    `json:"source_name"`
	Stage       string    `json:"stage"`
	OccurredAt  time.Time `json:"occurred_at"` // marshalled in UTC
	ServiceName string    `json:"service_name"`
	// IdempotencyKey is computed by the receiver when empty.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	TraceID        string `json:"trace_id,omitempty"`
	// CanonicalURL, where given, identifies the article instead of ArticleURL.
	CanonicalURL          string         `json:"canonical_url,omitempty"`
	MetadataSchemaVersion uint16         `json:"metadata_schema_version,omitempty"`
	Metadata              map[string]any `json:"metadata,omitempty"`
}

// MarshalJSON writes the event with occurred_at in UTC, as the contract wants.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	e.OccurredAt = e.OccurredAt.UTC()
	return json.Marshal(plain(e))
}

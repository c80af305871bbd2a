package events

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

// StoredEvent is an event as it was taken.
type StoredEvent struct {
	Seq                   uint64          `json:"seq" doc:"Its place in the event stream" example:"91220"`
	ArticleURL            string          `json:"article_url" example:"https://example.com/article-123"`
	CanonicalURL          string          `json:"canonical_url,omitempty"`
	URLHash               string          `json:"url_hash" doc:"SHA-256 of canonical_url, or of article_url without one"`
	Domain                string          `json:"domain" example:"example.com"`
	SourceName            string          `json:"source_name" example:"example_com"`
	Stage                 string          `json:"stage" example:"classified"`
	OccurredAt            time.Time       `json:"occurred_at" example:"2026-02-10T14:30:00Z"`
	ReceivedAt            time.Time       `json:"received_at" example:"2026-02-10T14:30:00.013Z"`
	ServiceName           string          `json:"service_name" example:"classifier"`
	IdempotencyKey        string          `json:"idempotency_key" doc:"As sent, or as computed where none was sent" example:"classifier:classified:a1b2c3d4:2026-02-10T14:30:00Z"`
	TraceID               string          `json:"trace_id,omitempty"`
	MetadataSchemaVersion uint16          `json:"metadata_schema_version" example:"1"`
	Metadata              json.RawMessage `json:"metadata" doc:"A JSON object, or null"`
}

func newEvent(e store.Event) StoredEvent {
	out := StoredEvent{
		Seq: e.Seq, ArticleURL: e.URL, CanonicalURL: e.CanonicalURL, URLHash: e.Hash, Domain: e.Domain,
		SourceName: e.Source,
		Stage:      e.Stage, OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt, ServiceName: e.Service,
		IdempotencyKey: e.Key,
		TraceID:        e.TraceID, MetadataSchemaVersion: e.SchemaVersion, Metadata: json.RawMessage("null"),
	}
	// One row that somebody else wrote must not make a page unreadable.
	if json.Valid([]byte(e.Metadata)) {
		out.Metadata = json.RawMessage(e.Metadata)
	}
	return out
}

// EventFilters are the parameters that say which events are wanted. Those that
// are empty do not filter.
type EventFilters struct {
	ArticleURL string `query:"article_url" doc:"Only events with this article_url" example:"https://example.com/article-123"`
	URLHash    string `query:"url_hash" doc:"Only events of the article with this hash"`
	Stage      string `query:"stage" doc:"Only events of this stage" example:"classified"`
	Source     string `query:"source" doc:"Only events of this source" example:"example_com"`
	TraceID    string `query:"trace_id" doc:"Only events of this trace" example:"4bf92f3577b34da6"`
	Service    string `query:"service" doc:"Only events of this service" example:"classifier"`
	From       string `query:"from" doc:"Only events at or after this time, RFC 3339" example:"2026-02-10T00:00:00Z"`
	To         string `query:"to" doc:"Only events before this time, RFC 3339" example:"2026-02-11T00:00:00Z"`
}

// EventsRequest are the parameters of GET /events.
type EventsRequest struct {
	httpapi.Params
	EventFilters
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many events a page has at most; one of 8 MiB of metadata ends before"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before, with the same filters"`
}

// EventsPage is the answer of GET /events.
type EventsPage struct {
	Events     []StoredEvent `json:"events" doc:"Newest first, by occurred_at"`
	NextCursor string        `json:"next_cursor,omitempty" doc:"For the next page; absent on the last one"`
	Notes      reads.Notes   `json:"notes,omitempty" doc:"As in the funnel"`
}

// Resolve implements huma.Resolver.
func (r *EventsRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(h *Handler) reads.Faults { _, f := h.page(*r); return f })
}

func (h *Handler) events(ctx context.Context, r EventsRequest) (EventsPage, error) {
	f, faults := h.page(r)
	if err := faults.Err(); err != nil {
		return EventsPage{}, err
	}
	leave, err := h.reading.Enter(ctx)
	if err != nil {
		return EventsPage{}, err
	}
	defer leave()
	rows, more, err := h.Store.Events(ctx, f)
	if err != nil {
		return EventsPage{}, err
	}
	page := EventsPage{Events: make([]StoredEvent, 0, len(rows))}
	if more {
		page.NextCursor = eventCursor.Encode(cursorOf(rows))
	}
	for _, row := range rows {
		page.Events = append(page.Events, newEvent(row))
	}
	if len(rows) == 0 {
		page.Notes = h.Notes(ctx, r.Source)
	}
	return page, nil
}

func (h *Handler) page(r EventsRequest) (f store.EventFilter, all reads.Faults) {
	f, all = h.eventFilter(r.EventFilters)
	f.Limit = r.Limit
	all.Check(eventCursor.Read(r.Cursor, &f.After))
	return f, all
}

func (h *Handler) eventFilter(r EventFilters) (f store.EventFilter, all reads.Faults) {
	f = store.EventFilter{URL: r.ArticleURL, Stage: r.Stage, Source: r.Source, Service: r.Service, Trace: r.TraceID}
	if len(f.URL) > event.MaxURL {
		all.Add(reads.Broken("article_url", "length", "must be at most 2048 bytes"))
	}
	for _, name := range [...][2]string{{"source", r.Source}, {"service", r.Service}, {"trace_id", r.TraceID}} {
		all.Add(reads.CheckName(name[0], name[1]))
	}
	if _, known := h.Stages.Index([]byte(r.Stage)); r.Stage != "" && !known {
		all.Add(h.unknownStage("stage", r.Stage))
	}
	var p *httpapi.Problem
	if r.URLHash != "" {
		f.Hash, p = parseHash(r.URLHash)
		all.Add(p)
	}
	f.From, p = reads.ParseTime("from", r.From)
	all.Add(p)
	f.To, p = reads.ParseTime("to", r.To)
	all.Add(p)
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		all.Add(reads.Broken("to", "span_order", "must be later than from"))
	}
	return f, all
}

// unknownStage is the problem of a stage that the pipeline does not have.
func (h *Handler) unknownStage(field, name string) *httpapi.Problem {
	stages := h.Stages.Names()
	near, _ := nearest.Name(name, stages)
	return reads.Broken(field, "stage_unknown", "must be one of "+strings.Join(stages, ", ")+"; the nearest is "+near)
}

// parseHash reads a url_hash, whatever its case.
func parseHash(text string) (string, *httpapi.Problem) {
	if b, err := hex.DecodeString(text); err != nil || len(b) != 32 {
		return "", reads.Broken(
			"url_hash", "url_hash", "must be 64 hexadecimal digits: the SHA-256 of the article's URL",
		)
	}
	return strings.ToLower(text), nil
}

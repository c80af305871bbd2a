package jobs

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// ListExecutionsRequest are the parameters of a list of runs.
type ListExecutionsRequest struct {
	OfSourceRequest
	Page
	Status string `query:"status" enum:"queued,running,success,failed,cancelled" doc:"Only runs in this status"`
	before uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *ListExecutionsRequest) Resolve(ctx huma.Context) []error {
	errs := r.OfSourceRequest.Resolve(ctx)
	var ok bool
	if r.before, ok = decodeID(executionCursor, r.Cursor); !ok {
		errs = append(errs, badCursor)
	}
	return errs
}

// ExecutionPage is a page of runs.
type ExecutionPage struct {
	Items      []job.Execution `json:"items" nullable:"false"`
	NextCursor string          `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
}

func (h *Handler) executions(ctx context.Context, in *ListExecutionsRequest) (ExecutionPage, error) {
	all, err := h.store.Executions(ctx, in.id, in.Status, in.before, in.Limit+1)
	if err == nil && len(all) == 0 {
		err = h.store.SourceKnown(ctx, in.id)
	}
	page := ExecutionPage{Items: all}
	if len(all) > in.Limit {
		page.Items, page.NextCursor = all[:in.Limit], encodeID(executionCursor, all[in.Limit-1].ID)
	}
	return page, known(err, "source_id", "must be that of a source")
}

// JobLedgerRequest are the parameters of a list of due times.
type JobLedgerRequest struct {
	JobRequest
	Page
	From    instant.Time `query:"from" format:"date-time" doc:"Only due times from then on" example:"2026-02-10T00:00:00Z"`
	To      instant.Time `query:"to" format:"date-time" doc:"Only due times before" example:"2026-02-11T00:00:00Z"`
	Outcome string       `query:"outcome" enum:"ran,caught_up,buffered,skipped,coalesced,outside_window,backoff,paused,expired" doc:"Only due times with this outcome"`
	Ran     string       `query:"ran" enum:"true,false" doc:"Only due times that ran, on time or caught up, or that did not"`
	before  time.Time
}

// Resolve implements huma.Resolver.
func (r *JobLedgerRequest) Resolve(ctx huma.Context) []error {
	errs := r.JobRequest.Resolve(ctx)
	if r.Cursor != "" {
		micros, _, ok := reads.DecodeCursor(ledgerCursor, r.Cursor)
		var err error
		if r.before, err = instant.FromMicro(int64(micros)); err != nil || !ok {
			errs = append(errs, badCursor)
		}
	}
	if !r.From.IsZero() && !r.To.IsZero() && !r.From.Before(r.To.Time) {
		errs = append(errs, httpapi.FieldError{Field: "to", Code: "order", Rule: "must be after from"})
	}
	return errs
}

// JobLedgerPage is a page of due times.
type JobLedgerPage struct {
	Items      []job.Decision `json:"items" nullable:"false"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
}

func (h *Handler) ledger(ctx context.Context, in *JobLedgerRequest) (JobLedgerPage, error) {
	span := jobs.Span{From: in.From.Time, To: in.To.Time, Outcome: in.Outcome}
	if in.Ran != "" {
		ran := in.Ran == "true"
		span.Ran = &ran
	}
	all, err := h.store.Ledger(ctx, in.id, span, in.before, in.Limit+1)
	if err == nil && len(all) == 0 {
		err = h.store.Known(ctx, in.id)
	}
	page := JobLedgerPage{Items: all}
	if len(all) > in.Limit {
		last := all[in.Limit-1].DueAt
		page.Items, page.NextCursor = all[:in.Limit], reads.EncodeCursor(ledgerCursor, uint64(last.UnixMicro()), 0)
	}
	return page, known(err, "id", "must be that of a job")
}

// EventLogRequest are the parameters of the log of events.
type EventLogRequest struct {
	httpapi.Params
	Page
	SourceID string `query:"source_id" maxLength:"64" doc:"Only events about this source"`
	Type     string `query:"event_type" enum:"SOURCE_CREATED,SOURCE_UPDATED,SOURCE_DELETED,SOURCE_ENABLED,SOURCE_DISABLED" doc:"Only events of this type"`
	Outcome  string `query:"outcome" enum:"applied,stale,waiting,dead" doc:"Only events of which this became"`
	source   uuid.UUID
	before   jobs.Place
}

// Resolve implements huma.Resolver.
func (r *EventLogRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	ok := true
	if r.SourceID != "" {
		if r.source, ok = source.ParseID(r.SourceID); !ok {
			errs = append(errs, httpapi.FieldError(source.BadID("source_id")))
		}
	}
	if r.before, ok = decodePlace(r.Cursor); !ok {
		errs = append(errs, badCursor)
	}
	return errs
}

// separator is between the two parts of a cursor of the log: the time with the first
// half of the id, and the second half.
const separator = "."

func encodePlace(at time.Time, id uuid.UUID) string {
	return reads.EncodeCursor(eventCursor, uint64(at.UnixMicro()), binary.BigEndian.Uint64(id[:8])) + separator +
		reads.EncodeCursor(eventCursor, 0, binary.BigEndian.Uint64(id[8:]))
}

// decodePlace reads the place of the last event of a page; without a cursor, the one
// after all.
func decodePlace(text string) (p jobs.Place, ok bool) {
	if text == "" {
		return p, true
	}
	half := len(text) / 2
	if half*2+1 != len(text) || text[half:half+1] != separator {
		return p, false
	}
	micros, a, ok := reads.DecodeCursor(eventCursor, text[:half])
	zero, b, too := reads.DecodeCursor(eventCursor, text[half+1:])
	at, err := instant.FromMicro(int64(micros))
	p.At = at
	binary.BigEndian.PutUint64(p.ID[:8], a)
	binary.BigEndian.PutUint64(p.ID[8:], b)
	return p, ok && too && zero == 0 && err == nil
}

// EventLogPage is a page of the log of events.
type EventLogPage struct {
	Items      []job.ProcessedEvent `json:"items" nullable:"false"`
	NextCursor string               `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
}

func (h *Handler) events(ctx context.Context, in *EventLogRequest) (EventLogPage, error) {
	l := jobs.Log{Source: in.source, Type: in.Type, Outcome: in.Outcome}
	all, err := h.store.Events(ctx, l, in.before, in.Limit+1)
	page := EventLogPage{Items: all}
	if len(all) > in.Limit {
		last := all[in.Limit-1]
		page.Items, page.NextCursor = all[:in.Limit], encodePlace(last.ProcessedAt, last.EventID)
	}
	return page, err
}

package jobs

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/endpoint"
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
	reads.Page
	Status string `query:"status" enum:"queued,running,success,failed,cancelled" doc:"Only runs in this status"`
	before uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *ListExecutionsRequest) Resolve(ctx huma.Context) []error {
	return append(r.OfSourceRequest.Resolve(ctx), endpoint.Faults(executionCursor.Read(r.Cursor, &r.before))...)
}

// ExecutionPage is a page of runs.
type ExecutionPage struct{ reads.List[job.Execution] }

func (h *Handler) executions(ctx context.Context, in *ListExecutionsRequest) (ExecutionPage, error) {
	all, err := h.jobs.Executions(ctx, in.id, in.Status, in.before, in.Limit+1)
	if err == nil && len(all) == 0 {
		err = h.jobs.SourceKnown(ctx, in.id)
	}
	page := ExecutionPage{
		reads.ListOf(executionCursor, all, in.Limit, func(e job.Execution) uuid.UUID { return e.ID }),
	}
	return page, known(err, "must be that of a source")
}

// JobLedgerRequest are the parameters of a list of due times.
type JobLedgerRequest struct {
	jobs.JobID
	reads.Page
	From    instant.Time `query:"from" format:"date-time" doc:"Only due times from then on" example:"2026-02-10T00:00:00Z"`
	To      instant.Time `query:"to" format:"date-time" doc:"Only due times before" example:"2026-02-11T00:00:00Z"`
	Outcome string       `query:"outcome" enum:"ran,caught_up,buffered,skipped,coalesced,outside_window,backoff,paused,expired" doc:"Only due times with this outcome"`
	Ran     string       `query:"ran" enum:"true,false" doc:"Only due times that ran, on time or caught up, or that did not"`
	before  time.Time
}

// Resolve implements huma.Resolver.
func (r *JobLedgerRequest) Resolve(ctx huma.Context) []error {
	errs := append(r.JobID.Resolve(ctx), endpoint.Faults(ledgerCursor.Read(r.Cursor, &r.before))...)
	if !r.From.IsZero() && !r.To.IsZero() && !r.From.Before(r.To.Time) {
		errs = append(errs, httpapi.FieldError{Field: "to", Code: "order", Rule: "must be after from"})
	}
	return errs
}

// JobLedgerPage is a page of due times.
type JobLedgerPage struct{ reads.List[job.Decision] }

func (h *Handler) ledger(ctx context.Context, in *JobLedgerRequest) (JobLedgerPage, error) {
	span := jobs.Span{From: in.From.Time, To: in.To.Time, Outcome: in.Outcome}
	if in.Ran != "" {
		ran := in.Ran == "true"
		span.Ran = &ran
	}
	all, err := h.jobs.Ledger(ctx, in.UUID, span, in.before, in.Limit+1)
	if err == nil && len(all) == 0 {
		err = h.jobs.Known(ctx, in.UUID)
	}
	return JobLedgerPage{
		reads.ListOf(ledgerCursor, all, in.Limit, func(d job.Decision) time.Time { return d.DueAt }),
	}, err
}

// EventLogRequest are the parameters of the log of events.
type EventLogRequest struct {
	httpapi.Params
	reads.Page
	SourceID string `query:"source_id" maxLength:"64" doc:"Only events about this source"`
	Type     string `query:"event_type" enum:"SOURCE_CREATED,SOURCE_UPDATED,SOURCE_DELETED,SOURCE_ENABLED,SOURCE_DISABLED" doc:"Only events of this type"`
	Outcome  string `query:"outcome" enum:"applied,stale,waiting,dead" doc:"Only events of which this became"`
	source   uuid.UUID
	before   jobs.Place
}

// Resolve implements huma.Resolver.
func (r *EventLogRequest) Resolve(ctx huma.Context) []error {
	var errs [2]error
	if r.SourceID != "" {
		errs[0] = source.ReadID("source_id", r.SourceID, &r.source)
	}
	errs[1] = eventCursor.Read(r.Cursor, &r.before)
	return append(r.Params.Resolve(ctx), endpoint.Faults(errs[:]...)...)
}

// A cursor of the log has two parts: the time with the first half of the id, and the
// second half.
var (
	placeCursor = reads.Pairs("events about sources")
	eventCursor = reads.Cursor[jobs.Place]{Encode: encodePlace, Decode: decodePlace}
)

// separator is between the parts.
const separator = "."

func encodePlace(p jobs.Place) string {
	return placeCursor.Encode(reads.Pair{uint64(p.At.UnixMicro()), binary.BigEndian.Uint64(p.ID[:8])}) + separator +
		placeCursor.Encode(reads.Pair{0, binary.BigEndian.Uint64(p.ID[8:])})
}

// decodePlace reads the place of the last event of a page.
func decodePlace(text string) (p jobs.Place, ok bool) {
	half := len(text) / 2
	if half*2+1 != len(text) || text[half:half+1] != separator {
		return p, false
	}
	a, ok := placeCursor.Decode(text[:half])
	b, too := placeCursor.Decode(text[half+1:])
	at, err := instant.FromMicro(int64(a[0]))
	p.At = at
	binary.BigEndian.PutUint64(p.ID[:8], a[1])
	binary.BigEndian.PutUint64(p.ID[8:], b[1])
	return p, ok && too && b[0] == 0 && err == nil
}

// EventLogPage is a page of the log of events.
type EventLogPage struct{ reads.List[job.ProcessedEvent] }

func (h *Handler) events(ctx context.Context, in *EventLogRequest) (EventLogPage, error) {
	l := jobs.Log{Source: in.source, Type: in.Type, Outcome: in.Outcome}
	all, err := h.jobs.Events(ctx, l, in.before, in.Limit+1)
	return EventLogPage{reads.ListOf(eventCursor, all, in.Limit, func(e job.ProcessedEvent) jobs.Place {
		return jobs.Place{At: e.ProcessedAt, ID: e.EventID}
	})}, err
}

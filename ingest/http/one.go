package ingesthttp

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Stored is the answer to a single event.
type Stored struct {
	Status         string `json:"status" enum:"accepted,duplicate" doc:"Whether the event is new"`
	IdempotencyKey string `json:"idempotency_key" doc:"As sent, or as computed" example:"classifier:classified:0a1b2c3d:2026-02-10T14:30:00Z"`
	URLHash        string `json:"url_hash" doc:"SHA-256 of the URL that identifies the article, in hex"`
}

func (h *Handler) one(w http.ResponseWriter, r *http.Request, body []byte) {
	received := time.Now()
	var record event.Record
	if broken := h.check(&record, body, received, h.mayBackfill(r)); broken != nil {
		h.metrics.rejected.WithLabelValues(broken[0].Code).Inc()
		p := badRequest(broken[0].Field, broken[0].Code, broken[0].Rule)
		p.Errors = broken
		httpapi.WriteProblem(w, p)
		return
	}
	ctx, cancel := h.waiting(r)
	defer cancel()
	outcome := h.batcher.Publish(ctx, client.EventMessage(&record, body))
	answer := Stored{IdempotencyKey: string(record.AppendKey(nil)), URLHash: hex.EncodeToString(record.URLHash[:])}
	stage := string(record.Stage)
	switch {
	case outcome.Status == client.Accepted:
		h.metrics.ingested.WithLabelValues(stage).Inc()
		h.log.InfoContext(r.Context(), "event ingested", "stage", stage, "article_url_hash", answer.URLHash[:8],
			"service", string(record.ServiceName))
		if record.Late(received) {
			h.log.WarnContext(r.Context(), "late event received", "stage", stage, "delay", received.Sub(record.Time()).String())
		}
		answer.Status = "accepted"
		httpapi.WriteJSON(w, http.StatusCreated, answer)
	case outcome.Status == client.Duplicate:
		h.metrics.duplicated.Inc()
		h.log.DebugContext(r.Context(), "duplicate event skipped", "idempotency_key", answer.IdempotencyKey)
		answer.Status = "duplicate"
		httpapi.WriteJSON(w, http.StatusOK, answer)
	case errors.Is(outcome.Err, client.ErrConflict):
		h.metrics.rejected.WithLabelValues(event.KeyConflict).Inc()
		rule := conflict(outcome.Err)
		httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusConflict, rule.Field+": "+rule.Rule, rule))
	case errors.Is(outcome.Err, client.ErrTooLarge):
		h.metrics.rejected.WithLabelValues("size").Inc()
		httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusRequestEntityTooLarge,
			"the event stream does not take events of this size", tooLarge(outcome.Err)))
	default:
		h.log.LogAttrs(r.Context(), slog.LevelError, "event not stored", slog.String("stage", stage),
			slog.Any("error", outcome.Err))
		httpapi.WriteProblem(w, unavailable(outcome.Err))
	}
}

// conflict is the rule that an event breaks whose key another one has.
func conflict(err error) httpapi.FieldError {
	rule := httpapi.FieldError{Field: "idempotency_key", Code: event.KeyConflict, Rule: event.ConflictRule}
	var of *client.KeyConflict
	if errors.As(err, &of) && of.Seq > 0 {
		rule.Rule += fmt.Sprintf(": message %d of %s has it", of.Seq, stream.Events)
	}
	return rule
}

func tooLarge(err error) httpapi.FieldError {
	return httpapi.FieldError{Code: "size", Rule: err.Error()}
}

// check applies every rule of an event to its text, and returns all that it
// breaks, nil for none. Beyond the rules of the stream, it refuses members that are no
// fields and metadata that is misspelt: its sender can still correct them.
func (h *Handler) check(r *event.Record, text []byte, received time.Time, backfill bool) (broken []httpapi.FieldError) {
	invalid := event.Decode(text, r)
	if invalid == nil {
		invalid = r.Validate(h.stages, received, backfill)
	}
	misspelt, others := r.Misspelt(), r.Others()
	if invalid == nil && misspelt == nil && len(others) == 0 {
		return nil
	}
	for _, e := range r.Faults(h.stages, received, backfill) {
		broken = append(broken, httpapi.FieldError(e))
	}
	for _, e := range misspelt {
		broken = append(broken, httpapi.FieldError(*e))
	}
	for _, name := range others {
		broken = appendUnknown(broken, string(name), event.Fields)
	}
	return broken
}

// appendUnknown adds that a member is no field, once for each name.
func appendUnknown(broken []httpapi.FieldError, name string, known []string) []httpapi.FieldError {
	if slices.ContainsFunc(broken, func(e httpapi.FieldError) bool { return e.Field == name }) {
		return broken
	}
	return append(broken, httpapi.FieldError{Field: name, Code: "field_unknown", Rule: nearest.Unknown(name, known)})
}

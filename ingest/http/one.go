package ingesthttp

import (
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/event"
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
	if invalid := h.check(&record, body, received, h.mayBackfill(r)); invalid != nil {
		h.metrics.rejected.WithLabelValues(invalid.Code).Inc()
		httpapi.WriteProblem(w, badRequest(invalid.Field, invalid.Code, invalid.Rule))
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
		h.log.Info("event ingested", "stage", stage, "article_url_hash", answer.URLHash[:8], "service", string(record.ServiceName))
		if record.Late(received) {
			h.log.Warn("late event received", "stage", stage, "delay", received.Sub(record.Time()).String())
		}
		answer.Status = "accepted"
		httpapi.WriteJSON(w, http.StatusCreated, answer)
	case outcome.Status == client.Duplicate:
		h.metrics.duplicated.Inc()
		h.log.Debug("duplicate event skipped", "idempotency_key", answer.IdempotencyKey)
		answer.Status = "duplicate"
		httpapi.WriteJSON(w, http.StatusOK, answer)
	case errors.Is(outcome.Err, client.ErrTooLarge):
		h.metrics.rejected.WithLabelValues("size").Inc()
		httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusRequestEntityTooLarge, "the event stream does not take events of this size", tooLarge(outcome.Err)))
	default:
		h.log.LogAttrs(r.Context(), slog.LevelError, "event not stored", slog.String("stage", stage), slog.Any("error", outcome.Err))
		httpapi.WriteProblem(w, unavailable(outcome.Err))
	}
}

func tooLarge(err error) httpapi.FieldError {
	return httpapi.FieldError{Code: "size", Rule: err.Error()}
}

// check applies every rule of an event to its text.
func (h *Handler) check(r *event.Record, text []byte, received time.Time, backfill bool) *event.Invalid {
	if invalid := event.Decode(text, r); invalid != nil {
		return invalid
	}
	return r.Validate(h.stages, received, backfill)
}

package ingesthttp

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/event"
)

// BatchResult is the answer to many events.
type BatchResult struct {
	Accepted   int        `json:"accepted" doc:"Events that are new"`
	Duplicates int        `json:"duplicates" doc:"Events that the stream had already, or that stand twice in the request"`
	Rejected   []Rejected `json:"rejected" doc:"Events that break a rule"`
}

// Rejected says why one event of a batch was not taken.
type Rejected struct {
	Index int                `json:"index" doc:"Its place in the request, from 0; blank lines do not count"`
	Error httpapi.FieldError `json:"error" doc:"The first rule that it breaks"`
	// Errors begin with Error.
	Errors []httpapi.FieldError `json:"errors" doc:"All rules that it breaks, one for each field"`
}

func rejected(index int, broken ...httpapi.FieldError) Rejected {
	return Rejected{Index: index, Error: broken[0], Errors: broken}
}

// refusal is the answer when no event of a batch is valid: a problem that has
// the members of a BatchResult as well.
type refusal struct {
	*httpapi.Problem
	BatchResult
}

// shownErrors is how many rejected events a problem repeats as its errors.
const shownErrors = 20

// item is what logs and metrics need of an event under way.
type item struct {
	index   int
	stage   string
	late    time.Duration // 0: in time
	service string        // this and what follows: where it is logged
	key     string
	urlHash string // the first bytes
}

func (h *Handler) many(w http.ResponseWriter, r *http.Request, texts [][]byte) {
	if len(texts) == 0 {
		httpapi.WriteProblem(w, badRequest("events", "missing", "must hold at least one event"))
		return
	}
	if len(texts) > MaxEvents {
		rule := fmt.Sprintf("must hold at most %d events", MaxEvents)
		httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusRequestEntityTooLarge, "a batch "+rule,
			httpapi.FieldError{Field: "events", Code: "batch_size", Rule: rule}))
		return
	}
	if !h.allow(w, r, len(texts)) {
		return
	}
	msgs, items, result := h.sort(texts, h.mayBackfill(r))
	ctx, cancel := h.waiting(r)
	defer cancel()
	outcomes, err := h.publisher.PublishRaw(ctx, msgs)
	if err != nil {
		err = h.dropRefused(&result, items, outcomes)
	}
	h.tally(&result, items, outcomes)
	switch {
	case err != nil:
		h.log.ErrorContext(r.Context(), "events not stored", "accepted", result.Accepted, "duplicates", result.Duplicates, "error", err)
		httpapi.WriteProblem(w, unavailable(err))
	case result.Accepted > 0:
		httpapi.WriteJSON(w, http.StatusCreated, result)
	case result.Duplicates > 0:
		httpapi.WriteJSON(w, http.StatusOK, result)
	default:
		refuse(w, "no event of the batch is valid", nil, result)
	}
}

// sort makes messages of the valid events and rejects the others.
func (h *Handler) sort(texts [][]byte, backfill bool) ([]client.Message, []item, BatchResult) {
	received := time.Now()
	msgs := make([]client.Message, 0, len(texts))
	items := make([]item, 0, len(texts))
	result := BatchResult{Rejected: []Rejected{}}
	var record event.Record
	for i, text := range texts {
		if broken := h.check(&record, text, received, backfill); broken != nil {
			h.metrics.rejected.WithLabelValues(broken[0].Code).Inc()
			result.Rejected = append(result.Rejected, rejected(i, broken...))
			continue
		}
		stage, _ := h.stages.Index(record.Stage)
		it := item{index: i, stage: h.stages.Names()[stage]}
		if h.debugs() {
			it.service, it.key, it.urlHash = string(record.ServiceName), string(record.AppendKey(nil)),
				hex.EncodeToString(record.URLHash[:4])
		}
		if record.Late(received) {
			it.late = received.Sub(record.Time())
		}
		msgs, items = append(msgs, client.EventMessage(&record, text)), append(items, it)
	}
	return msgs, items, result
}

// dropRefused rejects events that no retry mends, since the server's own limit
// keeps them out or their key is another event's, and returns the first error of
// any other kind.
func (h *Handler) dropRefused(result *BatchResult, items []item, outcomes []client.Outcome) error {
	var other error
	for k, o := range outcomes {
		switch {
		case errors.Is(o.Err, client.ErrConflict):
			h.metrics.rejected.WithLabelValues(event.KeyConflict).Inc()
			result.Rejected = append(result.Rejected, rejected(items[k].index, conflict(o.Err)))
		case errors.Is(o.Err, client.ErrTooLarge):
			h.metrics.rejected.WithLabelValues("size").Inc()
			result.Rejected = append(result.Rejected, rejected(items[k].index, tooLarge(o.Err)))
		case o.Err != nil && other == nil:
			other = o.Err
		}
	}
	slices.SortFunc(result.Rejected, func(a, b Rejected) int { return a.Index - b.Index })
	return other
}

func (h *Handler) debugs() bool { return h.log.Enabled(context.Background(), slog.LevelDebug) }

// tally counts and logs outcomes: one line for each kind, because a line an
// event would drown the log, but at the level debug.
func (h *Handler) tally(result *BatchResult, items []item, outcomes []client.Outcome) {
	type lateness struct {
		events int
		most   time.Duration
	}
	accepted, late := map[string]int{}, map[string]lateness{}
	debug := h.debugs()
	for k, o := range outcomes {
		switch o.Status {
		case client.Accepted:
			result.Accepted++
			if debug {
				h.log.Debug("event ingested", "stage", items[k].stage, "article_url_hash", items[k].urlHash,
					"service", items[k].service)
			}
			accepted[items[k].stage]++
			if d := items[k].late; d > 0 {
				l := late[items[k].stage]
				late[items[k].stage] = lateness{l.events + 1, max(l.most, d)}
			}
		case client.Duplicate:
			result.Duplicates++
			if debug {
				h.log.Debug("duplicate event skipped", "idempotency_key", items[k].key)
			}
		case client.Failed:
		}
	}
	for stage, n := range accepted {
		h.metrics.ingested.WithLabelValues(stage).Add(float64(n))
	}
	for stage, l := range late {
		h.log.Warn("late event received", "stage", stage, "delay", l.most.String(), "events", l.events)
	}
	h.metrics.duplicated.Add(float64(result.Duplicates))
	h.log.Info("events ingested", "accepted", result.Accepted, "duplicates", result.Duplicates,
		"rejected", len(result.Rejected))
}

// refuse answers a batch of which nothing was taken, with what is wrong with the request
// itself and with its events.
func refuse(w http.ResponseWriter, detail string, broken []httpapi.FieldError, result BatchResult) {
	p := httpapi.NewProblem(http.StatusBadRequest, detail, broken...)
	for _, r := range result.Rejected[:min(len(result.Rejected), shownErrors)] {
		for _, e := range r.Errors {
			e.Field = strings.TrimSuffix(fmt.Sprintf("events[%d].%s", r.Index, e.Field), ".")
			p.Errors = append(p.Errors, e)
		}
	}
	httpapi.WriteProblemDocument(w, p, refusal{p, result})
}

package ingesthttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/event"
)

// Limits of a request.
const (
	MaxBody   = 8 << 20 // bytes
	MaxEvents = 10_000
)

// Config shapes the handler. The zero value of a field stands for its default.
type Config struct {
	// Timeout is how long a request waits for the stream; default 5 s.
	Timeout time.Duration
	Limits  Limits
}

// Deps are what the handler works with.
type Deps struct {
	Log       *slog.Logger
	Registry  prometheus.Registerer
	Publisher *client.Publisher
	Stages    event.Stages
}

// Handler answers the event routes.
type Handler struct {
	timeout   time.Duration
	log       *slog.Logger
	publisher *client.Publisher
	batcher   *client.Batcher
	stages    event.Stages
	limiter   *limiter
	metrics   *metrics
	bodies    held
	schema    map[string]any
}

// New makes the handler; Register puts it on a server.
func New(cfg Config, deps Deps) (*Handler, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if deps.Log == nil || deps.Registry == nil || deps.Publisher == nil ||
		len(deps.Stages.Names()) == 0 {
		return nil, errors.New("HTTP ingest: a logger, a registry, a publisher and stages are needed")
	}
	m, err := newMetrics(deps.Registry, deps.Stages)
	if err != nil {
		return nil, err
	}
	limiter, err := newLimiter(cfg.Limits)
	if err != nil {
		return nil, err
	}
	schema, err := event.Schema(deps.Stages)
	if err != nil {
		return nil, err
	}
	return &Handler{
		timeout: cfg.Timeout, log: deps.Log, publisher: deps.Publisher,
		batcher: client.NewBatcher(deps.Publisher, cfg.Timeout), stages: deps.Stages, limiter: limiter, metrics: m,
		schema: schema,
	}, nil
}

// Register adds the routes and describes them.
func (h *Handler) Register(api endpoint.API) {
	s := api.Server
	guards := []func(http.Handler) http.Handler{
		api.Auth.Require(auth.EventsWrite), h.metrics.time,
		httpapi.LimitBody(MaxBody),
	}
	one, many, schema := h.describe(s)
	s.Handle(one, h.taking(h.event), guards...)
	s.Handle(many, h.taking(h.batch), guards...)
	s.Handle(schema, http.HandlerFunc(h.serveSchema))
}

func (h *Handler) serveSchema(w http.ResponseWriter, _ *http.Request) {
	httpapi.WriteJSON(w, http.StatusOK, h.schema)
}

// taking reads bodies of events and hands on those that are not lines, unless they cannot be read.
func (h *Handler) taking(
	do func(w http.ResponseWriter, r *http.Request, body []byte) *httpapi.Problem,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, problem := kindOf(r)
		if problem != nil {
			httpapi.WriteProblem(w, problem)
			return
		}
		part := h.bodies.part()
		defer part.free()
		body, problem := readBody(r, part)
		switch {
		case problem != nil:
		case kind == kindLines:
			h.many(w, r, splitLines(body))
		default:
			problem = do(w, r, body)
		}
		if problem != nil {
			h.metrics.rejected.WithLabelValues(problem.Errors[0].Code).Inc()
			httpapi.WriteProblem(w, problem)
		}
	}
}

// event takes one event.
func (h *Handler) event(w http.ResponseWriter, r *http.Request, body []byte) *httpapi.Problem {
	if h.allow(w, r, 1) {
		h.one(w, r, body)
	}
	return nil
}

// batch takes a list of events.
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, body []byte) *httpapi.Problem {
	items, problem := splitBatch(body)
	if problem != nil {
		return problem
	}
	var unknown []httpapi.FieldError // members beside the events
	for _, name := range event.OtherMembers(body, "events") {
		unknown = appendUnknown(unknown, name, []string{"events"})
	}
	if unknown != nil {
		_, _, result := h.sort(items[:min(len(items), MaxEvents)], h.mayBackfill(r))
		h.metrics.rejected.WithLabelValues(unknown[0].Code).Inc()
		refuse(w, "the request has unknown members, and nothing of it was taken", unknown, result)
		return nil
	}
	h.many(w, r, items)
	return nil
}

// allow charges the caller for events, and answers the request when it has
// brought too many.
func (h *Handler) allow(w http.ResponseWriter, r *http.Request, events int) bool {
	problem := h.limiter.take(r, events)
	if problem == nil {
		return true
	}
	h.metrics.rejected.WithLabelValues(problem.Errors[0].Code).Add(float64(events))
	httpapi.WriteProblem(w, problem)
	return false
}

// waiting bounds how long a request waits for the stream.
func (h *Handler) waiting(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), h.timeout)
}

func (h *Handler) mayBackfill(r *http.Request) bool {
	return auth.CallerFrom(r.Context()).Has(auth.EventsBackfill)
}

// unavailable is the answer when events could not be stored.
func unavailable(err error) *httpapi.Problem {
	if errors.Is(err, client.ErrBusy) {
		return httpapi.NewProblem(http.StatusTooManyRequests, "too many events wait to be stored; send this one again",
			httpapi.FieldError{Code: "busy", Rule: err.Error()}).WithHeader("Retry-After", "1")
	}
	detail, code := "the event stream does not answer; send the same request again, what was stored will count once",
		"unavailable"
	if errors.Is(err, client.ErrStreamFull) {
		detail, code = "the event stream is full; send the same request again when its limits have been raised or "+
			"old events have expired", "stream_full"
	}
	return httpapi.NewProblem(http.StatusServiceUnavailable, detail, httpapi.FieldError{Code: code, Rule: err.Error()}).
		WithHeader("Retry-After", "2")
}

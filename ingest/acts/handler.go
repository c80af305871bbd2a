// Package acts takes the commands of bulk actions over HTTP: to begin one, and to
// stop it.
package acts

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// Handler answers the commands.
type Handler struct{ store *acts.Store }

// New returns the handler; Register puts it on a server.
func New(store *acts.Store) *Handler { return &Handler{store} }

// Register adds the routes, for callers with the scope admin.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("/acts", "Acts")
	api.Known = tracking.KnownError
	endpoint.Post(api, endpoint.Operation{
		ID: "begin-act", Summary: "Retry or cancel everything that a filter matches", Scope: auth.Admin,
		Text: "What matches now are the members of the act: the oldest 1,000,000 at most. It is answered when they " +
			"are written down, and the " +
			"server moves them in turns; a restart does not end it. A member that has moved meanwhile is skipped. " +
			"An act that nothing matches " +
			"has ended when it is answered. GET /acts/count with the same filter says the number before.",
	}, h.begin)
	endpoint.Post(api, endpoint.Operation{
		ID: "stop-act", Path: "/{id}/stop", Summary: "Stop an act", Scope: auth.Admin,
		Text: "What it has done stays done. Stopping an act that has ended changes nothing.",
	}, h.stop)
	h.registerErrors(api)
}

// BeginActRequest asks for an act.
type BeginActRequest struct {
	httpapi.Params
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"The same request with the same key, by the same caller, answers 200 with the act that the first has begun"`
	Body struct {
		Move   string          `json:"move" enum:"retry,cancel" doc:"retry: failed items are new again. cancel: items that have not ended end"`
		Filter acts.ItemFilter `json:"filter"`
	}
}

// Resolve implements huma.Resolver.
func (r *BeginActRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	if rule := userqueue.CheckText("Idempotency-Key", r.Key); rule != nil {
		errs = append(errs, httpapi.FieldError(*rule))
	}
	for _, rule := range r.Body.Filter.Check(r.Body.Move) {
		errs = append(errs, httpapi.FieldError(rule))
	}
	return errs
}

// BegunAct is the answer.
type BegunAct struct {
	acts.Act
	made bool
}

// Made implements endpoint.Created.
func (a BegunAct) Made() bool { return a.made }

func (h *Handler) begin(ctx context.Context, in *BeginActRequest) (BegunAct, error) {
	return h.beginAct(ctx, acts.Request{Move: in.Body.Move, Filter: in.Body.Filter, Key: in.Key})
}

func (h *Handler) beginAct(ctx context.Context, r acts.Request) (BegunAct, error) {
	r.By = auth.CallerFrom(ctx).Subject
	a, made, err := h.store.Begin(ctx, r)
	if errors.Is(err, acts.ErrKeyTaken) {
		return BegunAct{}, httpapi.NewProblem(http.StatusConflict, err.Error(), httpapi.FieldError{
			Field: "Idempotency-Key", Code: "taken", Rule: "must not be the key of a request for something else",
		})
	}
	return BegunAct{a, made}, err
}

// ActPath names an act.
type ActPath struct {
	httpapi.Params
	ID int64 `path:"id" minimum:"1"`
}

func (h *Handler) stop(ctx context.Context, in *ActPath) (acts.Act, error) {
	a, err := h.store.Stop(ctx, in.ID)
	if errors.Is(err, acts.ErrNoAct) {
		return a, endpoint.NotFound("id", acts.Missing)
	}
	return a, err
}

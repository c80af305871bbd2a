// Package acts takes the commands of bulk actions over HTTP: to begin one, and to
// stop it. A system whose rows are acted on adds an operation by Begin.
package acts

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
)

// Handler answers the commands.
type Handler struct {
	store *acts.Store
	errs  *recrawl.Store
}

// New returns the handler; Register puts it on a server.
func New(store *acts.Store, errs *recrawl.Store) *Handler { return &Handler{store, errs} }

// Register adds the routes, for callers with the scope admin.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("/acts", "Acts")
	api.Known = tracking.KnownError
	Begin[BeginActRequestBody](api, h.store, endpoint.Operation{
		ID: "begin-act", Summary: "Retry or cancel everything that a filter matches",
		Text: "What matches now are the members of the act: the oldest 1,000,000 at most. It is answered when they " +
			"are written down, and the " +
			"server moves them in turns; a restart does not end it. A member that has moved meanwhile is skipped. " +
			"An act that nothing matches " +
			"has ended when it is answered. GET /acts/count with the same filter says the number before.",
	})
	endpoint.Post(api, endpoint.Operation{
		ID: "stop-act", Path: "/{id}/stop", Summary: "Stop an act", Scope: auth.Admin,
		Text: "What it has done stays done. Stopping an act that has ended changes nothing.",
	}, h.stop)
	h.registerErrors(api)
}

// BeginActRequestBody asks for an act on items.
type BeginActRequestBody struct{ items.Asked }

// Check implements Asks.
func (b BeginActRequestBody) Check() []item.Invalid { return b.Filter.Check(b.Move) }

// Request implements Asks.
func (b BeginActRequestBody) Request() acts.Request {
	return acts.Request{Subject: items.Name, Move: b.Move, Filter: b.Filter}
}

// ActPath names an act.
type ActPath struct {
	httpapi.Params
	ID int64 `path:"id" minimum:"1"`
}

func (h *Handler) stop(ctx context.Context, in *ActPath) (recrawl.Act, error) {
	a, err := h.store.Stop(ctx, in.ID)
	if errors.Is(err, acts.ErrNoAct) {
		return recrawl.Act{}, endpoint.NotFound("id", acts.Missing)
	}
	return recrawl.ActOf(a), err
}

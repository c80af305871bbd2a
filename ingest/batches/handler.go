package batches

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/objects"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// Deps are what the handler works with. All of them are needed, and it closes none.
type Deps struct {
	JetStream jetstream.JetStream
	Objects   *objects.NATS // where PUT /objects stores
	Modes     *Modes
	Auth      *auth.Auth
	Log       *slog.Logger
}

// Handler answers the routes of batches.
type Handler struct{ deps Deps }

// New makes the handler; Register puts it on a server.
func New(deps Deps) (*Handler, error) {
	if deps.JetStream == nil || deps.Objects == nil || deps.Modes == nil || deps.Auth == nil || deps.Log == nil {
		return nil, errors.New("batches over HTTP: JetStream, a storage, modes, authentication and a logger are needed")
	}
	return &Handler{deps}, nil
}

// Register adds the routes.
func (h *Handler) Register(api endpoint.API) {
	s := api.Server
	h.registerObjects(s)
	h.registerAnnounce(s)
	h.registerModes(api)
}

// BatchModes are the modes over HTTP.
type BatchModes struct {
	NewMode      bool    `json:"new_mode" doc:"Whether data.collected events are taken"`
	LegacyMode   bool    `json:"legacy_mode" doc:"Whether messages with data_ref are taken"`
	NewModeShare float64 `json:"new_mode_share" minimum:"0" maximum:"1" doc:"The share of jobs whose data.collected events are taken. A job is in every share that is larger than the first it is in"`
}

// ModeChange is what a request changes.
type ModeChange struct {
	NewMode      *bool    `json:"new_mode,omitempty" doc:"Whether data.collected events are taken"`
	LegacyMode   *bool    `json:"legacy_mode,omitempty" doc:"Whether messages with data_ref are taken"`
	NewModeShare *float64 `json:"new_mode_share,omitempty" minimum:"0" maximum:"1" doc:"The share of jobs whose data.collected events are taken"`
}

func (h *Handler) registerModes(api endpoint.API) {
	api = api.At("/batches", "Batches")
	endpoint.Get(api, endpoint.Operation{
		ID: "batch-modes", Path: "/modes", Summary: "Which messages about batches are taken at present", Scope: auth.Read,
	}, func(ctx context.Context, _ *httpapi.Params) (BatchModes, error) {
		modes, err := h.deps.Modes.Get(ctx)
		return BatchModes{modes.New, modes.Legacy, modes.NewShare}, err
	})
	endpoint.Put(api, endpoint.Operation{
		ID: "set-batch-modes", Path: "/modes", Summary: "Say which messages about batches are taken", Scope: auth.Admin,
		Text: "What is left out stays as it is. Messages that are not taken wait on the stream, without a limit of time, " +
			"and are taken when their mode is on.",
	}, func(ctx context.Context, in *endpoint.Body[ModeChange]) (BatchModes, error) {
		modes, err := h.deps.Modes.Set(ctx, in.Body.apply)
		return BatchModes{modes.New, modes.Legacy, modes.NewShare}, err
	})
}

func (c ModeChange) apply(m schema.Modes) schema.Modes {
	if c.NewMode != nil {
		m.New = *c.NewMode
	}
	if c.LegacyMode != nil {
		m.Legacy = *c.LegacyMode
	}
	if c.NewModeShare != nil {
		m.NewShare = *c.NewModeShare
	}
	return m
}

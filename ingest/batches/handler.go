package batches

import (
	"errors"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/objects"
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

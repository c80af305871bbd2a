package shards

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingapi"
)

// Config shapes the handler. The zero value of a field stands for its default.
type Config struct {
	// Poll is how often a feed looks for transitions; default 200 ms.
	Poll time.Duration
	// Feeds is how many may be open at a time; default 64.
	Feeds int
}

// Handler answers the reads.
type Handler struct {
	cfg   Config
	store *tracking.Store
	auth  *auth.Auth
	log   *slog.Logger
	feeds chan struct{} // one for each that is open
}

// New returns the handler and registers its metrics.
func New(cfg Config, store *tracking.Store, a *auth.Auth, registry prometheus.Registerer, log *slog.Logger) (*Handler, error) {
	if store == nil || a == nil || registry == nil || log == nil {
		return nil, errors.New("shard reads: the state, authentication, a metrics registry and a logger are needed")
	}
	if cfg.Poll == 0 {
		cfg.Poll = 200 * time.Millisecond
	}
	if cfg.Feeds == 0 {
		cfg.Feeds = 64
	}
	if err := registry.Register(newGauges(store)); err != nil {
		return nil, err
	}
	return &Handler{cfg: cfg, store: store, auth: a, log: log, feeds: make(chan struct{}, cfg.Feeds)}, nil
}

// Register adds the routes, for callers with the scope read.
func (h *Handler) Register(srv *httpapi.Server) {
	api := trackingapi.API{Server: srv, Auth: h.auth, Log: h.log}
	read := func(id, path, summary, text string) trackingapi.Operation {
		return trackingapi.Operation{ID: id, Path: path, Summary: summary, Text: text, Scope: auth.Read}
	}
	trackingapi.Get(api, read("get-queue", "/queues/{stage}", "Items that are ready for a stage",
		"In the order in which they are taken: the highest priority first, and the oldest of it. To see them reserves nothing."), h.queue)
	trackingapi.Get(api, read("get-files", "/files", "Files, the newest first", ""), h.files)
	trackingapi.Get(api, read("get-file", "/files/{filename}", "The statuses of a file's items", ""), h.file)
	trackingapi.Get(api, read("get-file-history", "/files/{filename}/history", "What happened to a file's items", ""), h.history)
	trackingapi.Get(api, read("get-shard-summary", "/metrics/summary", "Items in numbers", "Exact, at a cost that does not depend on their number."), h.summary)
	srv.Routes().With(h.auth.Require(auth.Read)).Method(http.MethodGet, trackingapi.Base+"/transitions", h.feed(srv.Draining()))
	describeFeed(srv)
}

// none is the request of operations without parameters.
type none struct{}

func (h *Handler) summary(ctx context.Context, _ *none) (Summary, error) {
	s, err := h.store.Summary(ctx)
	if err != nil {
		return Summary{}, err
	}
	return summaryOf(s, time.Now()), nil
}

package shards

import (
	"context"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/query/live"
)

// Config shapes the feeds of transitions.
type Config = live.TransitionsConfig

// Handler answers the reads.
type Handler struct {
	store *tracking.Store
	feeds *live.Transitions
}

// New returns the handler.
func New(cfg Config, store *tracking.Store) *Handler {
	return &Handler{store, live.NewTransitions(cfg, store.Now)}
}

// Register adds the routes, for callers with the scope read.
func (h *Handler) Register(api endpoint.API) {
	api = tracking.API(api)
	read := endpoint.For(auth.Read)
	endpoint.Get(api, read("get-queue", "/queues/{stage}", "Items that are ready for a stage",
		"In the order in which they are taken: the highest priority first, and the oldest of it. To see them "+
			"reserves nothing."), h.queue)
	endpoint.Get(api, read("get-files", "/files", "Files, the newest first", ""), h.files)
	endpoint.Get(api, read("get-file", "/files/{filename}", "The statuses of a file's items", ""), h.file)
	endpoint.Get(api, read("get-file-history", "/files/{filename}/history", "What happened to a file's items", ""),
		h.history)
	endpoint.Get(api, read("get-shard-summary", "/metrics/summary", "Items in numbers",
		"Exact, at a cost that does not depend on their number."), h.summary)
	h.feeds.Serve(api, describeFeed(api.Server), h.feed)
}

// none is the request of operations without parameters.
type none struct{ httpapi.Params }

func (h *Handler) summary(ctx context.Context, _ *none) (Summary, error) {
	s, err := h.store.Summary(ctx)
	if err != nil {
		return Summary{}, err
	}
	return summaryOf(s), nil
}

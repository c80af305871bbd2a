// Package events answers reads of single events: the events as they were accepted,
// the journeys of articles through the stages, and articles that are stuck after
// a stage or slow between two.
package events

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

// Config is what a handler works with. All of it is needed.
type Config struct {
	Stages event.Stages // the pipeline's
	Now    func() time.Time
	Store  *store.Store
	// Folded tells up to where events are counted.
	Folded func(context.Context) (store.Cut, error)
	// Notes are what there is to say of a source of which nothing was found.
	Notes func(ctx context.Context, source string) reads.Notes
	// Analysing has places for requests that analyse events in the database.
	Analysing *reads.Places
}

// readsAtOnce bounds how many requests read events as they were taken, a page of
// which has up to 8 MiB of metadata.
const readsAtOnce = 4

// Handler answers the requests.
type Handler struct {
	Config
	reading     *reads.Places
	exporting   *reads.Places
	maxExport   int
	maxArticles int
}

// New makes a handler.
func New(cfg Config) *Handler {
	return &Handler{
		Config: cfg, reading: reads.NewPlaces("reads of events", readsAtOnce, 0), exporting: reads.NewExportPlaces(),
		maxExport: maxExport, maxArticles: maxArticles,
	}
}

// Register adds the operations.
func (h *Handler) Register(api endpoint.API) {
	reads.Get(api, h, "events", "/events", "Events, newest first", h.events)
	reads.GetFile(api, h, "events-export", "/events/export", "Events as a file, newest first", reads.ContentTypes(),
		h.exporting, h.export)
	reads.Get(
		api, h, "articles", "/articles", "Articles that are stuck after a stage, or slow between two", h.articles,
	)
	reads.GetFile(
		api, h, "articles-export", "/articles/export", "Articles that are stuck or slow as a file",
		reads.ContentTypes(),
		h.exporting, h.exportArticles,
	)
	reads.Get(api, h, "journey", "/articles/{url_hash}/journey", "How an article went through the pipeline", h.journey)
}

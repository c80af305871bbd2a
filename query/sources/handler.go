package sources

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/source"
)

// Handler answers the reads.
type Handler struct{ store *sources.Store }

// New returns the handler; Register puts it on a server.
func New(store *sources.Store) *Handler { return &Handler{store} }

// Register adds the routes, for callers with the scope read.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("/sources", "Sources")
	read := endpoint.For(auth.Read)
	endpoint.Get(api, read("list-sources", "", "Sources that are crawled, the oldest first"), h.list)
	endpoint.Get(api, read("get-source", "/{id}", "A source"), h.one)
	h.registerExport(api)
}

// Selection are the parameters that select sources.
type Selection struct {
	Q        string `query:"q" doc:"Only sources with this in their name or URL, in any case" example:"news"`
	Enabled  string `query:"enabled" enum:"true,false" doc:"Only sources that are enabled, or that are not"`
	Priority string `query:"priority" enum:"low,normal,high,critical" doc:"Only sources of this priority"`
	Job      string `query:"job_status" enum:"pending,running,paused,failed,orphaned" doc:"Only sources whose job is in this status"`
	Health   string `query:"health" enum:"healthy,warning,failed,unknown" doc:"Only sources whose job is of this health"`
}

func (s Selection) filter() sources.Filter {
	f := sources.Filter{Text: s.Q, Priority: s.Priority, Job: s.Job, Health: s.Health}
	if s.Enabled != "" {
		enabled := s.Enabled == "true"
		f.Enabled = &enabled
	}
	return f
}

// check lists what is wrong with a selection beyond its schema.
func (s Selection) check() (errs []error) {
	switch {
	case len(s.Q) > source.MaxURL:
		errs = append(errs, httpapi.FieldError{Field: "q", Code: "length", Rule: "must be at most 2048 bytes"})
	case !utf8.ValidString(s.Q) || strings.ContainsRune(s.Q, 0):
		errs = append(errs, httpapi.FieldError{
			Field: "q", Code: "utf8",
			Rule: "must be valid UTF-8 without zero bytes",
		})
	}
	return errs
}

// ListSourcesRequest are the parameters of a list.
type ListSourcesRequest struct {
	httpapi.Params
	Selection
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many sources a page has at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before, with the same filters"`
	after  uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *ListSourcesRequest) Resolve(ctx huma.Context) []error {
	errs := append(r.Params.Resolve(ctx), r.check()...)
	var err error
	r.after, err = sourceCursor.After(r.Cursor)
	return append(errs, endpoint.Faults(err)...)
}

var sourceCursor = reads.IDs("sources")

// CrawlSourcePage is a page of sources.
type CrawlSourcePage struct {
	reads.List[source.CrawlSource]
	Total int64 `json:"total" doc:"How many sources the filters select, on all pages"`
}

func (h *Handler) list(ctx context.Context, in *ListSourcesRequest) (CrawlSourcePage, error) {
	f := in.filter()
	all, err := h.store.List(ctx, f, in.after, in.Limit+1)
	if err != nil {
		return CrawlSourcePage{}, err
	}
	total, err := h.store.Count(ctx, f)
	return CrawlSourcePage{
		reads.ListOf(sourceCursor, all, in.Limit, func(s source.CrawlSource) uuid.UUID { return s.ID }), total,
	}, err
}

// SourceRequest names a source.
type SourceRequest struct {
	httpapi.Params
	ID string `path:"id" maxLength:"64" doc:"The source's UUID" example:"0199f0a2-7c1e-7000-8000-000000000001"`
}

func (h *Handler) one(ctx context.Context, in *SourceRequest) (source.CrawlSource, error) {
	id, ok := source.ParseID(in.ID)
	if !ok {
		rule := source.BadID("id")
		return source.CrawlSource{}, &rule
	}
	s, err := h.store.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		err = endpoint.NotFound("id", "must be that of a source")
	}
	return s, err
}

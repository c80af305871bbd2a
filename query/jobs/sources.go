package jobs

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/source"
)

// RegisterSources adds the routes of sources, for callers with the scope read.
func (h *Handler) RegisterSources(api endpoint.API) {
	api = sources.API(api)
	read := endpoint.For(auth.Read)
	endpoint.Get(api, read("list-sources", "", "Sources that are crawled, the oldest first"), h.listSources)
	endpoint.Get(api, read("count-sources-act", "/acts/count", "How many sources a bulk action would be about",
		"The number of sources that the filter matches now. Nothing is done."), h.countSources)
	endpoint.Get(api, read("get-source", "/{id}", "A source"), h.source)
	h.registerExport(api)
}

// SelectSourcesRequest selects sources.
type SelectSourcesRequest struct {
	httpapi.Params
	sources.SourceFilter
}

// Resolve implements huma.Resolver.
func (r *SelectSourcesRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), endpoint.Refused(r.Check())...)
}

// ListSourcesRequest are the parameters of a list.
type ListSourcesRequest struct {
	SelectSourcesRequest
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many sources a page has at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before, with the same filters"`
	after  uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *ListSourcesRequest) Resolve(ctx huma.Context) []error {
	return append(r.SelectSourcesRequest.Resolve(ctx), endpoint.Faults(sourceCursor.Read(r.Cursor, &r.after))...)
}

var sourceCursor = reads.IDs("sources")

func (h *Handler) countSources(ctx context.Context, in *SelectSourcesRequest) (acts.ActCount, error) {
	return h.acts.Count(ctx, acts.Request{Subject: sources.Subject, Filter: in.SourceFilter})
}

// CrawlSourcePage is a page of sources.
type CrawlSourcePage struct {
	reads.List[source.CrawlSource]
	Total int64 `json:"total" doc:"How many sources the filters select, on all pages"`
}

func (h *Handler) listSources(ctx context.Context, in *ListSourcesRequest) (CrawlSourcePage, error) {
	f := in.Filter()
	all, err := h.sources.List(ctx, f, in.after, in.Limit+1)
	if err != nil {
		return CrawlSourcePage{}, err
	}
	total, err := h.sources.Count(ctx, f)
	return CrawlSourcePage{
		reads.ListOf(sourceCursor, all, in.Limit, func(s source.CrawlSource) uuid.UUID { return s.ID }), total,
	}, err
}

// SourceRequest names a source.
type SourceRequest struct {
	httpapi.Params
	ID string `path:"id" maxLength:"64" doc:"The source's UUID" example:"0199f0a2-7c1e-7000-8000-000000000001"`
}

func (h *Handler) source(ctx context.Context, in *SourceRequest) (source.CrawlSource, error) {
	var id uuid.UUID
	if err := source.ReadID("id", in.ID, &id); err != nil {
		return source.CrawlSource{}, err
	}
	return h.sources.Get(ctx, id)
}

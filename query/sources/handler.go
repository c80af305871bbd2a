package sources

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
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
type Handler struct {
	store *sources.Store
	auth  *auth.Auth
	log   *slog.Logger
}

// New returns the handler; Register puts it on a server.
func New(store *sources.Store, a *auth.Auth, log *slog.Logger) (*Handler, error) {
	if store == nil || a == nil || log == nil {
		return nil, errors.New("source reads: the state, authentication and a logger are needed")
	}
	return &Handler{store, a, log}, nil
}

// Register adds the routes, for callers with the scope read.
func (h *Handler) Register(srv *httpapi.Server) {
	api := endpoint.API{Server: srv, Auth: h.auth, Log: h.log, Base: "/sources", Tag: "Sources"}
	read := func(id, path, summary string) endpoint.Operation {
		return endpoint.Operation{ID: id, Path: path, Summary: summary, Scope: auth.Read}
	}
	endpoint.Get(api, read("list-sources", "", "Sources that are crawled, the oldest first"), h.list)
	endpoint.Get(api, read("get-source", "/{id}", "A source"), h.one)
	h.registerExport(srv)
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
	var ok bool
	if r.after, ok = decodeCursor(r.Cursor); !ok {
		errs = append(errs, httpapi.FieldError{
			Field: "cursor", Code: "cursor", Rule: "must be next_cursor of the page before",
		})
	}
	return errs
}

// sourceCursor is the kind of the cursors of sources.
const sourceCursor = 4

func encodeCursor(id uuid.UUID) string {
	return reads.EncodeCursor(sourceCursor, binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:]))
}

// decodeCursor reads the id of the last source of a page; without a cursor, one
// before all others.
func decodeCursor(text string) (id uuid.UUID, ok bool) {
	if text == "" {
		return id, true
	}
	a, b, ok := reads.DecodeCursor(sourceCursor, text)
	binary.BigEndian.PutUint64(id[:8], a)
	binary.BigEndian.PutUint64(id[8:], b)
	return id, ok
}

// CrawlSourcePage is a page of sources.
type CrawlSourcePage struct {
	Items      []source.CrawlSource `json:"items" nullable:"false"`
	NextCursor string               `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
	Total      int64                `json:"total" doc:"How many sources the filters select, on all pages"`
}

func (h *Handler) list(ctx context.Context, in *ListSourcesRequest) (CrawlSourcePage, error) {
	f := in.filter()
	all, err := h.store.List(ctx, f, in.after, in.Limit+1)
	if err != nil {
		return CrawlSourcePage{}, err
	}
	page := CrawlSourcePage{Items: all}
	if len(all) > in.Limit {
		page.Items, page.NextCursor = all[:in.Limit], encodeCursor(all[in.Limit-1].ID)
	}
	page.Total, err = h.store.Count(ctx, f)
	return page, err
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

package pipeline

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/window"
)

// FunnelRequest are the parameters of GET /funnel.
type FunnelRequest struct {
	httpapi.Params
	Period           string `query:"period" enum:"today,24h,7d,30d" doc:"A period that ends now; today (the default) begins at midnight of tz" example:"today"`
	From             string `query:"from" doc:"Begin of a custom window, inclusive, RFC 3339; instead of period" example:"2026-02-01T00:00:00Z"`
	To               string `query:"to" doc:"End of a custom window, exclusive; without it, the window ends now" example:"2026-02-10T00:00:00Z"`
	TZ               string `query:"tz" doc:"The time zone in which today begins; default UTC" example:"Europe/Berlin"`
	Source           string `query:"source" doc:"Only events of this source" example:"example_com"`
	SkipReclassified bool   `query:"exclude_reclassifications" doc:"Leave out events whose metadata says is_reclassification"`
	Uniques          string `query:"uniques" enum:"auto,exact,sketch" default:"auto" doc:"How distinct articles are counted; auto: exactly, unless the window is large"`
}

// SourcesRequest are the parameters of GET /sources.
type SourcesRequest struct {
	httpapi.Params
	Period string `query:"period" enum:"today,24h,7d,30d" doc:"As for the funnel" example:"today"`
	From   string `query:"from" doc:"As for the funnel" example:"2026-02-01T00:00:00Z"`
	To     string `query:"to" doc:"As for the funnel" example:"2026-02-10T00:00:00Z"`
	TZ     string `query:"tz" doc:"As for the funnel" example:"Europe/Berlin"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many sources at most"`
}

// Source is a source and its number of events.
type Source struct {
	Name  string `json:"name" example:"example_com"`
	Count uint64 `json:"count" doc:"Events" example:"12300"`
}

// Sources is the answer of GET /sources.
type Sources struct {
	Sources []Source `json:"sources" doc:"Most events first"`
	Total   uint64   `json:"total" doc:"How many there are, those beyond limit included" example:"12556"`
}

// JourneyRequest are the parameters of GET /articles/{url_hash}/journey.
type JourneyRequest struct {
	httpapi.Params
	URLHash string `path:"url_hash" doc:"SHA-256 of the article's URL, hexadecimal"`
}

// Resolve implements huma.Resolver.
func (r *JourneyRequest) Resolve(ctx huma.Context) []error {
	return resolve(ctx, r.Params, func(*Service) (f faults) {
		_, p := parseHash(r.URLHash)
		f.add(p)
		return f
	})
}

// Output is a JSON answer.
type Output[T any] struct{ Body T }

// Register adds the service's routes to a server, for callers with the scope
// read.
func (s *Service) Register(srv *httpapi.Server, a *auth.Auth) {
	get(s, srv, a, "funnel", "/funnel", "The funnel of a window: events and distinct articles by stage", s.getFunnel)
	get(s, srv, a, "stats", "/stats", "What a window's events carry, and how long articles take", s.getStats)
	get(s, srv, a, "drift", "/stats/drift", "Model versions, and whether their classifications drift", s.getDrift)
	get(s, srv, a, "events", "/events", "Events, newest first", s.events)
	get(s, srv, a, "sources", "/sources", "Sources by number of events", s.sources)
	get(s, srv, a, "articles", "/articles", "Articles that are stuck after a stage, or slow between two", s.articles)
	get(s, srv, a, "journey", "/articles/{url_hash}/journey", "How an article went through the pipeline", func(ctx context.Context, r JourneyRequest) (Journey, error) {
		return s.journey(ctx, r.URLHash)
	})
	s.hub.Register(srv, a)
}

// get registers an operation that reads.
func get[In, Out any, P interface {
	*In
	huma.Resolver
}](s *Service, srv *httpapi.Server, a *auth.Auth, name, path, summary string, handle func(context.Context, In) (Out, error)) {
	op := a.Protect(huma.Operation{
		OperationID: "get-" + name, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"Views"},
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable},
	}, auth.Read)
	op.Middlewares = append(op.Middlewares, s.checked)
	huma.Register(srv.API(), op, func(ctx context.Context, in *In) (*Output[Out], error) {
		defer s.timed(name)()
		ctx, cancel := context.WithTimeout(ctx, s.cfg.QueryTimeout)
		defer cancel()
		out, err := handle(ctx, *in)
		if err != nil {
			return nil, s.problem(err)
		}
		return &Output[Out]{out}, nil
	})
}

// Resolve implements huma.Resolver.
func (r *FunnelRequest) Resolve(ctx huma.Context) []error {
	return resolve(ctx, r.Params, func(s *Service) faults { _, f := r.question(s); return f })
}

func (r *FunnelRequest) question(s *Service) (q question, f faults) {
	q = question{source: r.Source, skipReclassified: r.SkipReclassified}
	q.spec = f.window(window.Request{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ, Now: s.cfg.Now()})
	f.add(checkName("source", r.Source))
	return q, f
}

func (s *Service) getFunnel(ctx context.Context, r FunnelRequest) (Funnel, error) {
	q, faults := r.question(s)
	if err := faults.err(); err != nil {
		return Funnel{}, err
	}
	f, err := s.funnel(ctx, q, mirror.Uniques(r.Uniques), 0)
	if err == nil && f.empty() {
		f.Notes = s.notes(ctx, r.Source)
	}
	return f, err
}

// Resolve implements huma.Resolver.
func (r *SourcesRequest) Resolve(ctx huma.Context) []error {
	return resolve(ctx, r.Params, func(s *Service) faults { _, f := r.window(s); return f })
}

func (r *SourcesRequest) window(s *Service) (spec window.Spec, f faults) {
	return f.window(window.Request{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ, Now: s.cfg.Now()}), f
}

func (s *Service) sources(ctx context.Context, r SourcesRequest) (Sources, error) {
	spec, faults := r.window(s)
	if err := faults.err(); err != nil {
		return Sources{}, err
	}
	before, err := s.retiredBefore(ctx)
	if err != nil {
		return Sources{}, err
	}
	w, _ := widen(spec.At(s.cfg.Now()), mirror.Auto, before) // as the funnel's
	if w.Live {
		w.To = w.To.Add(window.Ahead)
	}
	rows, total, err := s.store.Sources(ctx, w.From, w.To, before, r.Limit)
	if err != nil {
		return Sources{}, err
	}
	out := Sources{Sources: make([]Source, 0, len(rows)), Total: total}
	for _, row := range rows {
		out.Sources = append(out.Sources, Source{row.Name, row.Events})
	}
	return out, nil
}

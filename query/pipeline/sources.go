package pipeline

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/query/window"
)

// SourcesRequest are the parameters of GET /funnel/sources.
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

// Sources is the answer of GET /funnel/sources.
type Sources struct {
	Sources []Source `json:"sources" doc:"Most events first"`
	Total   uint64   `json:"total" doc:"How many there are, those beyond limit included" example:"12556"`
}

// Resolve implements huma.Resolver.
func (r *SourcesRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, f := r.window(s); return f })
}

func (r *SourcesRequest) window(s *Service) (spec window.Spec, f reads.Faults) {
	spec = f.Window(window.Request{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ, Now: s.cfg.Now()})
	return spec, f
}

func (s *Service) sources(ctx context.Context, r SourcesRequest) (Sources, error) {
	spec, faults := r.window(s)
	if err := faults.Err(); err != nil {
		return Sources{}, err
	}
	before, err := s.retiredBefore(ctx)
	if err != nil {
		return Sources{}, err
	}
	w, _ := widen(spec.At(s.cfg.Now()), mirror.Auto, before) // as the funnel's
	rows, total, err := s.store.Sources(ctx, w.From, w.End(), before, r.Limit)
	if err != nil {
		return Sources{}, err
	}
	out := Sources{Sources: make([]Source, 0, len(rows)), Total: total}
	for _, row := range rows {
		out.Sources = append(out.Sources, Source{row.Name, row.Events})
	}
	return out, nil
}

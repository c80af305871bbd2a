package pipeline

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
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

// Resolve implements huma.Resolver.
func (r *FunnelRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, f := r.question(s); return f })
}

func (r *FunnelRequest) question(s *Service) (q question, f reads.Faults) {
	return s.question(r.Source, r.SkipReclassified, reads.WindowRequest{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ})
}

// question checks what the funnel and the statistics are asked of.
func (s *Service) question(
	source string, skipReclassified bool, window reads.WindowRequest,
) (q question, f reads.Faults) {
	window.Now = s.cfg.Now()
	q = question{spec: f.Window(window), source: source, skipReclassified: skipReclassified}
	f.Add(reads.CheckName("source", source))
	return q, f
}

func (s *Service) getFunnel(ctx context.Context, r FunnelRequest) (Funnel, error) {
	q, faults := r.question(s)
	if err := faults.Err(); err != nil {
		return Funnel{}, err
	}
	f, err := s.funnel(ctx, q, mirror.Uniques(r.Uniques), 0)
	if err == nil && f.empty() {
		f.Notes = append(f.Notes, s.notes(ctx, r.Source)...)
	}
	return f, err
}

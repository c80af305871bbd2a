package pipeline

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/query/window"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// SourcesRequest are the parameters of GET /funnel/sources.
type SourcesRequest struct {
	httpapi.Params
	Period string `query:"period" enum:"today,24h,7d,30d" doc:"As for the funnel" example:"today"`
	From   string `query:"from" doc:"As for the funnel" example:"2026-02-01T00:00:00Z"`
	To     string `query:"to" doc:"As for the funnel" example:"2026-02-10T00:00:00Z"`
	TZ     string `query:"tz" doc:"As for the funnel" example:"Europe/Berlin"`
	Search string `query:"q" doc:"Only sources whose names have all of these words in them, in any case; _ stands for a blank" example:"example"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many sources a page has at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before, with the same parameters"`
}

// Source is a source with events.
type Source struct {
	Name        string     `json:"name" example:"example_com"`
	Count       uint64     `json:"count" doc:"Events" example:"12300"`
	Rank        uint64     `json:"rank" doc:"Its place by number of events among all sources of the window" example:"1"`
	LastEventAt time.Time  `json:"last_event_at" doc:"Its newest event of the window; of retired events, the beginning of the quarter of an hour" example:"2026-02-10T14:30:00Z"`
	LongestGap  *SourceGap `json:"longest_gap,omitempty" doc:"The longest time without events between two of the window; absent without one of an hour (of a day in windows of more than 31 days)"`
}

// SourceGap is a time in which a source was silent, in whole quarters of an hour
// in windows of up to 48 hours, in whole hours in windows of up to 31 days, and in
// whole days in longer ones.
type SourceGap struct {
	From    time.Time `json:"from" example:"2026-02-10T09:15:00Z"`
	To      time.Time `json:"to" example:"2026-02-10T11:00:00Z"`
	Seconds int64     `json:"seconds" example:"6300"`
}

// Sources is the answer of GET /funnel/sources.
type Sources struct {
	Sources    []Source `json:"sources" doc:"One whose name is q first, then most events first"`
	Total      uint64   `json:"total" doc:"How many there are, on all pages; 0 on a page without any" example:"12556"`
	Largest    uint64   `json:"largest" doc:"Events of the largest source of the window, whatever q is" example:"12300"`
	Events     uint64   `json:"events" doc:"Events of all sources of the window, whatever q is" example:"75480"`
	NextCursor string   `json:"next_cursor,omitempty" doc:"For the next page; absent on the last one. Sources that change places between two pages may be on both, or on neither"`
}

// sourcesCursor is a kind of cursors.
const sourcesCursor = 4

// Resolve implements huma.Resolver.
func (r *SourcesRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, _, f := r.question(s); return f })
}

func (r *SourcesRequest) question(s *Service) (spec window.Spec, skip int, f reads.Faults) {
	spec = f.Window(window.Request{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ, Now: s.cfg.Now()})
	f.Add(reads.CheckName("q", r.Search))
	if r.Cursor != "" {
		at, _, ok := reads.DecodeCursor(sourcesCursor, r.Cursor)
		if skip = int(at); !ok || skip < 0 {
			f.Add(reads.Broken("cursor", "cursor", "must be the next_cursor of a page"))
		}
	}
	return spec, skip, f
}

func (s *Service) sources(ctx context.Context, r SourcesRequest) (Sources, error) {
	spec, skip, faults := r.question(s)
	if err := faults.Err(); err != nil {
		return Sources{}, err
	}
	before, err := s.retiredBefore(ctx)
	if err != nil {
		return Sources{}, err
	}
	w, _ := widen(spec.At(s.cfg.Now()), mirror.Auto, before) // as the funnel's
	rows, totals, err := s.store.Sources(ctx, store.SourceFilter{
		From: w.From, To: w.End(), Retired: before, Search: r.Search, Skip: skip, Limit: r.Limit,
	})
	if err != nil {
		return Sources{}, err
	}
	gaps, err := s.sourceGaps(ctx, rows, w)
	if err != nil {
		return Sources{}, err
	}
	out := Sources{
		Sources: make([]Source, 0, len(rows)), Total: totals.Found, Largest: totals.Largest, Events: totals.Events,
	}
	for _, row := range rows {
		out.Sources = append(out.Sources, Source{
			Name: row.Name, Count: row.Events, Rank: row.Rank, LastEventAt: row.LastAt, LongestGap: gaps[row.Name],
		})
	}
	if end := skip + len(rows); len(rows) > 0 && uint64(end) < totals.Found {
		out.NextCursor = reads.EncodeCursor(sourcesCursor, uint64(end), 0)
	}
	return out, nil
}

// sourceGaps finds when each source was silent for longest.
func (s *Service) sourceGaps(
	ctx context.Context, sources []store.Source, w window.Window,
) (map[string]*SourceGap, error) {
	if len(sources) == 0 {
		return nil, nil
	}
	width := funnel.Quarter
	switch span := w.To.Sub(w.From); {
	case span > 31*24*time.Hour:
		width = funnel.Day
	case span > 48*time.Hour:
		width = funnel.Hour
	}
	names := make([]string, 0, len(sources))
	for _, source := range sources {
		names = append(names, source.Name)
	}
	active, err := s.store.Activity(ctx, width, w.From, w.To, names)
	if err != nil {
		return nil, err
	}
	gaps := map[string]*SourceGap{}
	for name, begins := range active {
		gaps[name] = longestGap(begins, width)
	}
	return gaps, nil
}

// longestGap returns the longest time between buckets of a width, which are
// named by the seconds at which they begin; nil without one of an hour.
func longestGap(begins []uint32, width funnel.Width) (gap *SourceGap) {
	longest := int64(time.Hour/time.Second) - 1
	for i := 1; i < len(begins); i++ {
		from, to := int64(begins[i-1])+int64(width), int64(begins[i])
		if to-from > longest {
			longest = to - from
			gap = &SourceGap{time.Unix(from, 0).UTC(), time.Unix(to, 0).UTC(), longest}
		}
	}
	return gap
}

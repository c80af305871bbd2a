package pipeline

import (
	"context"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// SourceSelection are the parameters that say which sources.
type SourceSelection struct {
	Period string `query:"period" enum:"today,24h,7d,30d" doc:"As for the funnel" example:"today"`
	reads.WindowTimes
	Search string `query:"q" doc:"Only sources whose names have all of these words in them, in any case; _ stands for a blank" example:"example"`
}

// SourcesRequest are the parameters of GET /funnel/sources.
type SourcesRequest struct {
	httpapi.Params
	SourceSelection
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
	Counts      []uint64   `json:"counts,omitempty" doc:"Events in each of the parts of the window, as far as they are counted"`
}

// SourceGap is a time in which a source was silent, in whole quarters of an hour
// in windows of up to 48 hours, in whole hours in windows of up to 31 days, and in
// whole days in longer ones.
type SourceGap struct {
	From    time.Time `json:"from" example:"2026-02-10T09:15:00Z"`
	To      time.Time `json:"to" example:"2026-02-10T11:00:00Z"`
	Seconds int64     `json:"seconds" example:"6300"`
}

// SourceParts are the parts of a window that events of sources are counted in.
type SourceParts struct {
	From    time.Time `json:"from" doc:"When the first one begins: the window, or up to an hour before it (a day in windows of more than 31 days)" example:"2026-02-09T15:00:00Z"`
	Seconds int64     `json:"seconds" doc:"How long each is; the last one may end after the window" example:"3600"`
}

// Sources is the answer of GET /funnel/sources.
type Sources struct {
	Sources    []Source    `json:"sources" doc:"One whose name is q first, then most events first"`
	Total      uint64      `json:"total" doc:"How many there are, on all pages; 0 on a page without any" example:"12556"`
	Largest    uint64      `json:"largest" doc:"Events of the largest source of the window, whatever q is" example:"12300"`
	Events     uint64      `json:"events" doc:"Events of all sources of the window, whatever q is" example:"75480"`
	Parts      SourceParts `json:"parts" doc:"What counts are of"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"For the next page; absent on the last one. Sources that change places between two pages may be on both, or on neither"`
}

var sourcesCursor = reads.Convert(reads.Pairs("sources of the funnel"), func(skip int) reads.Pair {
	return reads.Pair{uint64(skip)}
}, func(p reads.Pair) (int, bool) {
	return int(p[0]), p[0] <= math.MaxInt
})

// Resolve implements huma.Resolver.
func (r *SourcesRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, f := r.question(s.cfg.Now()); return f })
}

// sourcesQuestion is a page of sources that is asked for.
type sourcesQuestion struct {
	window      reads.WindowSpec
	now         time.Time
	search      string
	skip, limit int
}

func (r *SourceSelection) question(now time.Time) (q sourcesQuestion, f reads.Faults) {
	q = sourcesQuestion{now: now, search: r.Search}
	q.window = f.Window(reads.WindowRequest{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ, Now: now})
	f.Add(reads.CheckName("q", r.Search))
	return q, f
}

func (r *SourcesRequest) question(now time.Time) (q sourcesQuestion, f reads.Faults) {
	q, f = r.SourceSelection.question(now)
	q.limit = r.Limit
	f.Check(sourcesCursor.Read(r.Cursor, &q.skip))
	return q, f
}

func (s *Service) sources(ctx context.Context, r SourcesRequest) (Sources, error) {
	q, faults := r.question(s.cfg.Now())
	if err := faults.Err(); err != nil {
		return Sources{}, err
	}
	out, err := s.sourcesPage(ctx, q)
	if end := q.skip + len(out.Sources); len(out.Sources) > 0 && uint64(end) < out.Total {
		out.NextCursor = sourcesCursor.Encode(end)
	}
	return out, err
}

// sourcesPage answers a question, but for the cursor.
func (s *Service) sourcesPage(ctx context.Context, q sourcesQuestion) (Sources, error) {
	before, err := s.retiredBefore(ctx)
	if err != nil {
		return Sources{}, err
	}
	w, _ := widen(q.window.At(q.now), mirror.Auto, before) // as the funnel's
	rows, totals, err := s.store.Sources(ctx, store.SourceFilter{
		From: w.From, To: w.End(), Retired: before, Search: q.search, Skip: q.skip, Limit: q.limit,
	})
	if err != nil {
		return Sources{}, err
	}
	width := bucketsOf(w)
	active, err := s.activities(ctx, rows, width, w)
	if err != nil {
		return Sources{}, err
	}
	out := Sources{
		Sources: make([]Source, 0, len(rows)), Total: totals.Found, Largest: totals.Largest, Events: totals.Events,
		Parts: partsOf(w, width),
	}
	for _, row := range rows {
		a := active[row.Name]
		out.Sources = append(out.Sources, Source{
			Name: row.Name, Count: row.Events, Rank: row.Rank, LastEventAt: row.LastAt,
			LongestGap: longestGap(a.Begins, width), Counts: out.Parts.count(a, w.To),
		})
	}
	return out, nil
}

// bucketsOf is the width of buckets by which the activity in a window is known.
func bucketsOf(w reads.Window) funnel.Width {
	switch span := w.To.Sub(w.From); {
	case span > 31*24*time.Hour:
		return funnel.Day
	case span > 48*time.Hour:
		return funnel.Hour
	}
	return funnel.Quarter
}

func (s *Service) activities(
	ctx context.Context, sources []store.Source, width funnel.Width, w reads.Window,
) (map[string]store.Activity, error) {
	if len(sources) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(sources))
	for _, source := range sources {
		names = append(names, source.Name)
	}
	return s.store.Activities(ctx, width, w.From, w.To, names)
}

// mostParts is how many parts a window has at most, unless they are of a year.
const mostParts = 48

// partsOf divides a window into parts of one or more buckets each.
func partsOf(w reads.Window, width funnel.Width) SourceParts {
	from := width.Floor(w.From.Unix())
	seconds := int64(width)
	for _, hours := range []int64{1, 6, 24, 7 * 24, 30 * 24, 365 * 24} {
		if w.To.Unix()-from <= mostParts*seconds {
			break
		}
		seconds = max(seconds, hours*3600)
	}
	return SourceParts{time.Unix(from, 0).UTC(), seconds}
}

// count counts what a source has in each part until a time.
func (p SourceParts) count(a store.Activity, to time.Time) []uint64 {
	from := p.From.Unix()
	counts := make([]uint64, max(0, to.Unix()-from+p.Seconds-1)/p.Seconds)
	for i, begin := range a.Begins {
		if at := (int64(begin) - from) / p.Seconds; at < int64(len(counts)) {
			counts[at] += a.Events[i]
		}
	}
	return counts
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

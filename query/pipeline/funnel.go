package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/query/window"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// FunnelStage is one stage of a funnel.
type FunnelStage struct {
	Name           string `json:"name" example:"crawled"`
	Count          uint64 `json:"count" doc:"Events, also repeated ones such as reclassifications" example:"75480"`
	UniqueArticles uint64 `json:"unique_articles" doc:"Distinct articles; never more than count" example:"71200"`
}

// Funnel is the answer of GET /funnel and the snapshot of the live view.
type Funnel struct {
	Period           string         `json:"period" enum:"today,24h,7d,30d,custom" example:"today"`
	Timezone         string         `json:"timezone" example:"UTC"`
	Source           string         `json:"source" doc:"Only this source; empty: all"`
	From             time.Time      `json:"from" doc:"The window's begin, inclusive" example:"2026-02-10T00:00:00Z"`
	To               time.Time      `json:"to" doc:"When the window was looked at, for a period: it holds everything from its begin on. Its end, exclusive, for a custom window" example:"2026-02-10T15:42:00Z"`
	Stages           []FunnelStage  `json:"stages" doc:"All stages of the pipeline, in its order"`
	UniqueMethod     string         `json:"unique_method" enum:"exact,sketch" doc:"Whether unique_articles are exact or estimates"`
	UniqueError      float64        `json:"unique_error" doc:"Relative error of unique_articles: three standard errors of the sketch, 0 when exact" example:"0"`
	GeneratedAt      time.Time      `json:"generated_at" example:"2026-02-10T15:42:00.003Z"`
	Stream           StreamPosition `json:"stream"`
	SkipReclassified bool           `json:"exclude_reclassifications,omitempty" doc:"Reclassifications are left out"`
	Notes            reads.Notes    `json:"notes,omitempty" doc:"What may not be as the caller has meant it: a source that nobody has sent, and the nearest that somebody has"`

	cut store.Cut // what is counted
}

// empty tells whether there are no events.
func (f Funnel) empty() bool {
	return !slices.ContainsFunc(f.Stages, func(s FunnelStage) bool { return s.Count > 0 })
}

// question is what a funnel or statistics are asked of.
type question struct {
	spec             window.Spec
	source           string // empty: all
	skipReclassified bool   // without reclassifications
	feed             bool   // asked by a live feed, as long as it is watched
}

func (q question) key() string {
	return fmt.Sprintf("%s %t %s", q.spec.Key(), q.skipReclassified, q.source)
}

// countsAtOnce bounds how many requests count in the database at one time, and
// feedsAtOnce how many feeds do besides that never find their view in memory, or
// not while the mirror is busy.
const (
	countsAtOnce = 4
	feedsAtOnce  = 1
)

// funnel answers a question. positionAge is how old its distance to the stream
// may be.
func (s *Service) funnel(
	ctx context.Context, q question, uniques mirror.Uniques, positionAge time.Duration,
) (Funnel, error) {
	w := q.spec.At(s.cfg.Now())
	f, err := s.count(ctx, q, w, uniques)
	if err != nil {
		return Funnel{}, err
	}
	folded := f.Stream.FoldedSeq
	f.Period, f.Timezone, f.Source, f.SkipReclassified = w.Period, w.Zone, q.source, q.skipReclassified
	if f.To.IsZero() {
		f.To = w.To
	}
	f.Stream = s.streamEnd.position(ctx, folded, positionAge)
	f.GeneratedAt = s.cfg.Now().UTC()
	return f, nil
}

// count fills in what depends on where the numbers come from: From, To, Stages,
// UniqueMethod, UniqueError and Stream.FoldedSeq.
func (s *Service) count(ctx context.Context, q question, w window.Window, uniques mirror.Uniques) (Funnel, error) {
	aside := s.counting // or, for a feed, places beside those of requests
	if q.feed {
		aside = s.feeding
	}
	if !w.Live || q.skipReclassified { // the mirror does not know which events are reclassifications
		return s.countTable(ctx, aside, q, w, uniques)
	}
	a, err := s.mirror.Funnel(ctx, q.source, w, uniques)
	switch {
	case errors.Is(err, mirror.ErrNotHeld):
		return s.countTable(ctx, s.counting, q, w, mirror.Exact)
	case errors.Is(err, mirror.ErrNotLoaded), errors.Is(err, mirror.ErrUnderWay):
		return s.countTable(ctx, s.counting, q, w, uniques)
	case errors.Is(err, mirror.ErrBusy):
		return s.countTable(ctx, aside, q, w, uniques)
	case err != nil:
		return Funnel{}, err
	}
	f := newFunnel(a.From, a.Exact)
	for i, name := range s.cfg.Stages.Names() {
		f.Stages = append(f.Stages, FunnelStage{name, a.Stages[i].Events, a.Stages[i].Articles})
	}
	f.Stream.FoldedSeq = a.Folded
	f.cut, err = s.cut(ctx, a.Groups, a.Folded)
	return f, err
}

// countTable counts a window in the database, as soon as one of the places is
// free.
func (s *Service) countTable(
	ctx context.Context, places reads.Places, q question, w window.Window, uniques mirror.Uniques,
) (Funnel, error) {
	leave, err := places.Enter(ctx)
	if err != nil {
		return Funnel{}, err
	}
	defer leave()
	before, err := s.retiredBefore(ctx)
	if err != nil {
		return Funnel{}, err
	}
	if w.From.Before(before) && q.skipReclassified {
		return Funnel{}, reads.Broken("exclude_reclassifications", "events_retired",
			"cannot be answered for times before "+before.Format(time.DateOnly)+", of which no single events are kept")
	}
	w, uniques = widen(w, uniques, before)
	folded, err := s.folded(ctx)
	if err != nil {
		return Funnel{}, err
	}
	c := scopeOf(q, w, folded)
	exact := uniques == mirror.Exact
	if uniques == mirror.Auto {
		n, err := s.store.CountUpTo(ctx, c, s.cfg.ExactEvents+1)
		if err != nil {
			return Funnel{}, err
		}
		exact = n <= uint64(s.cfg.ExactEvents)
	}
	count := s.store.Sketch
	switch {
	case exact:
		count = s.store.Exact
	case q.skipReclassified: // which the sketches cannot tell apart
		count = s.store.Estimate
	}
	stages, err := count(ctx, c)
	if err != nil {
		return Funnel{}, err
	}
	f := newFunnel(w.From, exact)
	f.To = w.To
	for _, name := range s.cfg.Stages.Names() {
		stage := stages[name]
		f.Stages = append(f.Stages, FunnelStage{name, stage.Events, min(stage.Articles, stage.Events)})
	}
	f.Stream.FoldedSeq, f.cut = folded.Seq(), folded
	return f, nil
}

// folded returns up to where events are counted at present.
func (s *Service) folded(ctx context.Context) (store.Cut, error) {
	return s.cut(ctx, s.mirror.Groups(), s.mirror.Folded())
}

// cut turns the mirror's position into a cut. While the mirror has none, it is
// where its load would get to, or mirror.ErrUnderWay: the events of a batch may
// not have landed although its rows of the funnel have, and the other way round.
func (s *Service) cut(ctx context.Context, groups []uint64, folded uint64) (store.Cut, error) {
	switch {
	case len(groups) > 0:
		return groups, nil
	case folded > 0:
		return store.Cut{folded}, nil
	}
	landed, err := s.store.Landed(ctx)
	if err != nil {
		return nil, err
	}
	return s.mirror.Landed(ctx, landed)
}

// scopeOf is what the events table holds of a question's window.
func scopeOf(q question, w window.Window, cut store.Cut) store.Scope {
	return store.Scope{
		Source: q.source, From: w.From, To: w.End(), Cut: cut, SkipReclassified: q.skipReclassified,
	}
}

func newFunnel(from time.Time, exact bool) Funnel {
	if exact {
		return Funnel{From: from, UniqueMethod: string(mirror.Exact)}
	}
	return Funnel{From: from, UniqueMethod: string(mirror.Sketch), UniqueError: 3 * funnel.StandardError}
}

var _ mirror.Store = (*store.Store)(nil)

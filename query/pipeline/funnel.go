package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
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
	Notes            reads.Notes    `json:"notes,omitempty" doc:"What may not be as the caller has meant it: a source that nobody has sent, and the nearest that somebody has; a begin that is earlier because the database does not answer"`

	at mirror.Position // up to where is counted
}

// empty tells whether there are no events.
func (f Funnel) empty() bool {
	return !slices.ContainsFunc(f.Stages, func(s FunnelStage) bool { return s.Count > 0 })
}

// question is what a funnel or statistics are asked of.
type question struct {
	spec             reads.WindowSpec
	source           string // empty: all
	skipReclassified bool   // without reclassifications
	feed             bool   // asked by a live feed, as long as it is watched
}

func (q question) key() string {
	return fmt.Sprintf("%s %t %s", q.spec.Key(), q.skipReclassified, q.source)
}

// countsAtOnce bounds how many requests count in the database at a time. feedsAtOnce
// are extra slots for live feeds whose answer is not in the mirror, or not while the
// mirror is busy.
const (
	countsAtOnce = 4
	feedsAtOnce  = 1
)

// funnel answers a question. positionAge is how old its distance to the stream
// may be.
func (s *Service) funnel(
	ctx context.Context, q question, uniques mirror.Uniques, positionAge time.Duration,
) (Funnel, error) {
	f, err := s.count(ctx, q, uniques)
	if err != nil {
		return Funnel{}, err
	}
	f.Source, f.SkipReclassified = q.source, q.skipReclassified
	f.Stream = s.streamEnd.position(ctx, f.Stream.FoldedSeq, positionAge)
	f.GeneratedAt = s.cfg.Now().UTC()
	return f, nil
}

// count fills in what depends on where the numbers come from: the window, Stages,
// UniqueMethod, UniqueError and Stream.FoldedSeq, all of one moment.
func (s *Service) count(ctx context.Context, q question, uniques mirror.Uniques) (Funnel, error) {
	aside := s.counting // or, for a feed, places beside those of requests
	if q.feed {
		aside = s.feeding
	}
	if !q.spec.Live() || q.skipReclassified { // the mirror does not know which events are reclassifications
		return s.countTable(ctx, aside, q, uniques)
	}
	a, err := s.mirror.Funnel(ctx, q.source, q.spec.At, uniques)
	switch {
	case errors.Is(err, mirror.ErrNotHeld):
		return s.countTable(ctx, s.counting, q, mirror.Exact)
	case errors.Is(err, mirror.ErrNotLoaded), errors.Is(err, mirror.ErrUnderWay):
		return s.countTable(ctx, s.counting, q, uniques)
	case errors.Is(err, mirror.ErrBusy), errors.Is(err, mirror.ErrClock):
		return s.countTable(ctx, aside, q, uniques)
	case err != nil:
		return Funnel{}, err
	}
	f := newFunnel(a.Window, a.From, a.Exact)
	for i, name := range s.cfg.Stages.Names() {
		f.Stages = append(f.Stages, FunnelStage{name, a.Stages[i].Events, a.Stages[i].Articles})
	}
	if a.Widened {
		f.Notes = reads.Notes{{Field: "from", Code: "window_widened", Rule: "is earlier than the window that was asked " +
			"for: the database does not answer, and memory does not hold the events between the two one by one"}}
	}
	f.Stream.FoldedSeq, f.at = a.Folded, a.Position
	return f, nil
}

// countTable counts a window in the database, as soon as one of the places is
// free.
func (s *Service) countTable(
	ctx context.Context, places *reads.Places, q question, uniques mirror.Uniques,
) (Funnel, error) {
	leave, err := places.Enter(ctx)
	if err != nil {
		return Funnel{}, err
	}
	defer leave()
	w := q.spec.At(s.cfg.Now())
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
	exact, err := s.countsExactly(ctx, c, uniques)
	if err != nil {
		return Funnel{}, err
	}
	count := s.store.Sketch
	switch {
	case exact:
		count = s.store.Exact
	case q.skipReclassified: // which the sketches cannot tell apart
		count = s.store.Estimate
	}
	stages, err := count(ctx, c)
	if err != nil && uniques == mirror.Exact && s.overwhelmed(ctx, err) {
		return Funnel{}, tooLarge("which takes more time or memory than a request may")
	}
	if err != nil {
		return Funnel{}, err
	}
	f := newFunnel(w, w.From, exact)
	for _, name := range s.cfg.Stages.Names() {
		stage := stages[name]
		f.Stages = append(f.Stages, FunnelStage{name, stage.Events, min(stage.Articles, stage.Events)})
	}
	f.Stream.FoldedSeq, f.at = folded.Seq(), mirror.Position{Folded: folded.Seq(), Groups: folded}
	return f, nil
}

// countsExactly tells whether distinct articles of a scope are counted exactly. It is the
// caller's mistake to want that of more events than MostExact.
func (s *Service) countsExactly(ctx context.Context, c store.Scope, uniques mirror.Uniques) (bool, error) {
	var most int
	switch uniques {
	case mirror.Auto:
		most = s.cfg.ExactEvents
	case mirror.Exact:
		most = s.cfg.MostExact
	default:
		return false, nil
	}
	n, err := s.store.CountUpTo(ctx, c, most+1)
	if err == nil && n > uint64(most) && uniques == mirror.Exact {
		return false, tooLarge(fmt.Sprintf("which has more than %d events", most))
	}
	return n <= uint64(most), err
}

// overwhelmed tells whether a query has failed because there is too much to count, and
// not because the database is away.
func (s *Service) overwhelmed(ctx context.Context, failure error) bool {
	if !errors.Is(failure, reads.ErrUnavailable) && !errors.Is(failure, context.DeadlineExceeded) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the request's time is over
	defer cancel()
	return s.store.Ping(ctx) == nil
}

// tooLarge is what the caller is told who wants exact counts of a window with too many
// events.
func tooLarge(reason string) *httpapi.Problem {
	return reads.Broken("uniques", "window_too_large", "cannot be exact for this window, "+reason+
		": ask for a shorter window or for one source, or leave uniques out, which has large windows estimated")
}

// folded returns up to where events are counted at present.
func (s *Service) folded(ctx context.Context) (store.Cut, error) {
	return s.cut(ctx, s.mirror.Position())
}

// cut turns the mirror's position into a cut. While the mirror has none, it is
// where its load would get to, or mirror.ErrUnderWay: the events of a batch may
// not have landed although its rows of the funnel have, and the other way round.
func (s *Service) cut(ctx context.Context, at mirror.Position) (store.Cut, error) {
	switch {
	case len(at.Groups) > 0:
		return at.Groups, nil
	case at.Folded > 0:
		return store.Cut{at.Folded}, nil
	}
	landed, err := s.store.Landed(ctx)
	if err != nil {
		return nil, err
	}
	return s.mirror.Landed(ctx, landed)
}

// scopeOf is what the events table holds of a question's window.
func scopeOf(q question, w reads.Window, cut store.Cut) store.Scope {
	return store.Scope{
		Source: q.source, From: w.From, To: w.End(), Cut: cut, SkipReclassified: q.skipReclassified,
	}
}

// newFunnel is that of a window, which truly begins at from.
func newFunnel(w reads.Window, from time.Time, exact bool) Funnel {
	f := Funnel{Period: w.Period, Timezone: w.Zone, From: from, To: w.To, UniqueMethod: string(mirror.Exact)}
	if !exact {
		f.UniqueMethod, f.UniqueError = string(mirror.Sketch), 3*funnel.StandardError
	}
	return f
}

var _ mirror.Store = (*store.Store)(nil)

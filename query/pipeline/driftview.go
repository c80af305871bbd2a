package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

const (
	// maxVersions bounds the model versions of an answer.
	maxVersions = 100
	// maxDrawn is how many classifications a test looks at, about.
	maxDrawn = 500_000
)

// DriftRequest are the parameters of GET /stats/drift.
type DriftRequest struct {
	httpapi.Params
	Period string `query:"period" enum:"today,24h,7d,30d" doc:"As for the funnel; without a window, everything that is kept" example:"30d"`
	reads.WindowTimes
	Source        string `query:"source" doc:"Only events of this source" example:"example_com"`
	Reference     string `query:"reference" doc:"Model version to compare with; default the one before current" example:"v2.0"`
	Current       string `query:"current" doc:"Model version that is compared; default the newest" example:"v2.1"`
	ReferenceFrom string `query:"reference_from" doc:"Compare windows instead, or versions each within a window: all four times are needed" example:"2026-02-01T00:00:00Z"`
	ReferenceTo   string `query:"reference_to" example:"2026-02-08T00:00:00Z"`
	CurrentFrom   string `query:"current_from" example:"2026-02-08T00:00:00Z"`
	CurrentTo     string `query:"current_to" example:"2026-02-15T00:00:00Z"`
	Round         bool   `query:"round" doc:"Quality scores and their differences as whole numbers, for clients that read integers"`
}

// contrast is what drift is asked of.
type contrast struct {
	question
	all                bool // no window
	windows            bool // reference and current have windows
	reference, current contender
}

// contender is one side of a contrast.
type contender struct {
	version  string
	from, to time.Time // zero: those of the whole
}

// Resolve implements huma.Resolver.
func (r *DriftRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, f := r.contrast(s); return f })
}

func (r *DriftRequest) contrast(s *Service) (q contrast, f reads.Faults) {
	q.spec = f.Window(reads.WindowRequest{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ, Now: s.cfg.Now()})
	for _, name := range [...][2]string{{"source", r.Source}, {"reference", r.Reference}, {"current", r.Current}} {
		f.Add(reads.CheckName(name[0], name[1]))
	}
	q.source, q.all = r.Source, r.Period == "" && r.From == ""
	q.reference.version, q.current.version = r.Reference, r.Current
	q.windows = r.ReferenceFrom+r.ReferenceTo+r.CurrentFrom+r.CurrentTo != ""
	if q.windows {
		q.reference.parse(&f, "reference", r.ReferenceFrom, r.ReferenceTo)
		q.current.parse(&f, "current", r.CurrentFrom, r.CurrentTo)
	}
	return q, f
}

func (c contender) key() string {
	return fmt.Sprintf("%q %d %d", c.version, c.from.UnixNano(), c.to.UnixNano())
}

func (c *contender) parse(faults *reads.Faults, name, from, to string) {
	before := len(*faults)
	for _, f := range [...]struct {
		field, text string
		time        *time.Time
	}{{name + "_from", from, &c.from}, {name + "_to", to, &c.to}} {
		if f.text == "" {
			faults.Add(reads.Broken(f.field, "missing", "is required where windows are compared"))
			continue
		}
		var p *httpapi.Problem
		*f.time, p = reads.ParseTime(f.field, f.text)
		faults.Add(p)
	}
	if len(*faults) == before && !c.from.Before(c.to) {
		faults.Add(reads.Broken(name+"_to", "span_order", "must be later than "+name+"_from"))
	}
}

func (q contrast) key() string {
	return fmt.Sprintf("%s %t %s %s", q.question.key(), q.all, q.reference.key(), q.current.key())
}

func (s *Service) getDrift(ctx context.Context, r DriftRequest) (Drift, error) {
	q, faults := r.contrast(s)
	if err := faults.Err(); err != nil {
		return Drift{}, err
	}
	fresh := func(a cachedAnswer[Drift]) bool {
		return s.fresh(a.Value.cut, a.At, a.Took, q.all || q.spec.Moves())
	}
	d, err := s.drifts.Get(ctx, q.key(), fresh, func(ctx context.Context) (Drift, error) { return s.drift(ctx, q) })
	if err == nil && len(d.Versions) == 0 {
		d.Notes = s.notes(ctx, r.Source)
	}
	if r.Round {
		d = d.rounded()
	}
	return d, err
}

// drift answers from the events up to a sequence.
func (s *Service) drift(ctx context.Context, q contrast) (Drift, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.QueryTimeout)
	defer cancel()
	leave, err := s.analysing.Enter(ctx)
	if err != nil {
		return Drift{}, err
	}
	defer leave()
	folded, err := s.folded(ctx)
	if err != nil {
		return Drift{}, err
	}
	now := s.cfg.Now().UTC()
	scope, to := q.scope(now, folded)
	n, _, err := s.store.SampleSize(ctx, scope, s.roles, "")
	if err != nil {
		return Drift{}, err
	}
	out := Drift{
		Sample: oneIn(n, s.cfg.ExactEvents), GeneratedAt: now,
		Stream: s.streamEnd.position(ctx, folded.Seq(), time.Second), cut: folded,
	}
	versions, err := s.store.Versions(ctx, scope, s.roles, out.Sample, maxVersions)
	if err != nil {
		return Drift{}, err
	}
	firstSeen, err := s.store.FirstSeen(ctx, s.roles, folded)
	if err != nil {
		return Drift{}, err
	}
	slices.SortStableFunc(versions, func(a, b store.Version) int {
		return firstSeen[b.Name].Compare(firstSeen[a.Name])
	})
	out.Versions = newVersions(versions, firstSeen, out.Sample, now)
	if !q.choose(versions) {
		return out, nil
	}
	reference, err := s.draw(ctx, scope, q.reference, to)
	if err != nil {
		return Drift{}, err
	}
	current, err := s.draw(ctx, scope, q.current, to)
	if err != nil {
		return Drift{}, err
	}
	out.Indicators, out.Comparison = indicators(reference, current), compare(reference, current)
	return out, nil
}

// scope returns what is looked at, and the end that its window is told to have:
// nil for everything that is kept.
func (q contrast) scope(now time.Time, folded store.Cut) (scope store.Scope, to *time.Time) {
	w := q.spec.At(now)
	scope = scopeOf(q.question, w, folded)
	if q.all {
		scope.From = time.Unix(0, 0)
		return scope, nil
	}
	return scope, &w.To
}

// choose fills in the versions that were not named: the newest as current, and
// the one before current as reference. It returns false when there is none.
func (q *contrast) choose(versions []store.Version) bool {
	if q.windows {
		return true
	}
	if q.current.version == "" {
		for _, v := range versions {
			if v.Name != q.reference.version {
				q.current.version = v.Name
				break
			}
		}
	}
	if q.reference.version == "" {
		for i, v := range versions {
			if v.Name == q.current.version && i+1 < len(versions) {
				q.reference.version = versions[i+1].Name
			}
		}
	}
	return q.current.version != "" && q.reference.version != ""
}

// draw takes the sample of a contender. The end of the scope's window is told to
// be to, nil without a window.
func (s *Service) draw(ctx context.Context, scope store.Scope, of contender, to *time.Time) (out side, err error) {
	out.shown.Version = of.version
	switch {
	case !of.from.IsZero():
		scope.From, scope.To = of.from, of.to
		out.shown.From, out.shown.To = &of.from, &of.to
	case to != nil:
		out.shown.From, out.shown.To = &scope.From, to
	}
	out.shown.Classifications, out.shown.AvgQuality, err = s.store.SampleSize(ctx, scope, s.roles, of.version)
	if err != nil {
		return out, err
	}
	out.shown.Sample = oneIn(out.shown.Classifications, maxDrawn)
	out.drawn, out.topics, err = s.store.SampleTopics(ctx, scope, s.roles, of.version, out.shown.Sample, maxNames)
	if err != nil {
		return out, err
	}
	out.shown.Articles = out.drawn * uint64(out.shown.Sample)
	scores, err := s.store.SampleScores(ctx, scope, s.roles, of.version, out.shown.Sample)
	out.scores = NewScores(scores)
	return out, err
}

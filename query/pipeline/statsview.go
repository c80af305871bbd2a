package pipeline

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

const (
	// analysesAtOnce bounds how many requests analyse events in the database
	// at one time.
	analysesAtOnce = 2
	// maxNames bounds the sources, versions, topics and channels of an answer.
	maxNames = 100_000
	// settling bounds the attempts to find the funnel and the tables at one
	// sequence, and settleWait the time between them.
	settling   = 4
	settleWait = 100 * time.Millisecond
	// keepUnchanged is for how long an answer serves at most while nothing is
	// folded.
	keepUnchanged = time.Minute
)

// StatsRequest are the parameters of GET /stats.
type StatsRequest struct {
	httpapi.Params
	Period string `query:"period" enum:"today,24h,7d,30d" doc:"As for the funnel" example:"today"`
	reads.WindowTimes
	Source           string `query:"source" doc:"Only events of this source" example:"example_com"`
	SkipReclassified bool   `query:"exclude_reclassifications" doc:"Leave out events whose metadata says is_reclassification"`
	Limit            int    `query:"limit" minimum:"1" maximum:"100000" default:"100000" doc:"How many names by_source, by_model_version, by_topic and by_channel have at most, each the largest" example:"50"`
	Round            bool   `query:"round" doc:"Quality scores as whole numbers, for clients that read integers"`
}

// Resolve implements huma.Resolver.
func (r *StatsRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, f := r.question(s); return f })
}

func (r *StatsRequest) question(s *Service) (q question, f reads.Faults) {
	return s.question(r.Source, r.SkipReclassified, reads.WindowRequest{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ})
}

func (s *Service) getStats(ctx context.Context, r StatsRequest) (Stats, error) {
	q, faults := r.question(s)
	if err := faults.Err(); err != nil {
		return Stats{}, err
	}
	fresh := func(a cachedAnswer[analysis]) bool { return s.showsFunnel(ctx, q, a) }
	a, err := s.statistics.Get(ctx, q.key(), fresh, func(ctx context.Context) (analysis, error) {
		return s.analyse(ctx, q)
	})
	if err != nil {
		return Stats{}, err
	}
	out := a.stats.largest(cmp.Or(r.Limit, maxNames))
	if r.Round {
		c := &out.Classification
		c.AvgQuality, c.MedianQuality = wholeNumber(c.AvgQuality), wholeNumber(c.MedianQuality)
	}
	if a.funnel.empty() {
		out.Notes = s.notes(ctx, r.Source)
	}
	return out, nil
}

// analysis is statistics and the funnel that they show.
type analysis struct {
	stats  Stats
	funnel Funnel
}

// showsFunnel tells whether statistics may serve again: those that still show
// what the funnel shows.
func (s *Service) showsFunnel(ctx context.Context, q question, a cachedAnswer[analysis]) bool {
	then := a.Value.funnel
	if !s.fresh(then.at.Groups, a.At, a.Took, q.spec.Moves()) {
		return false
	}
	if s.keeps(a.At, a.Took) || !q.spec.Live() || q.skipReclassified {
		return true
	}
	now, err := s.funnel(ctx, q, mirror.Auto, time.Second)
	return err == nil && now.UniqueMethod == then.UniqueMethod && slices.Equal(now.Stages, then.Stages)
}

// fresh tells whether an answer is young enough to serve again: for a short
// while if nothing has been folded since, for a shorter one if its window moves,
// and one that was dear for longer.
func (s *Service) fresh(groups []uint64, at time.Time, took time.Duration, moves bool) bool {
	keep := keepUnchanged
	if moves {
		keep = time.Second
	}
	return (slices.Equal(groups, s.mirror.Position().Groups) && s.within(at, keep)) || s.keeps(at, took)
}

// within tells whether a time is at most so long ago. One that has yet to come was taken
// before the clock was set back, and says nothing.
func (s *Service) within(at time.Time, limit time.Duration) bool {
	age := s.cfg.Now().Sub(at)
	return age >= 0 && age <= limit
}

// keeps tells whether an answer took so long that askers get it rather than
// another.
func (s *Service) keeps(at time.Time, took time.Duration) bool {
	return took >= 500*time.Millisecond && s.within(at, min(4*took, s.cfg.KeepSlow))
}

// analyse answers from the funnel and, for what that does not have, from the
// events up to the funnel's sequence.
func (s *Service) analyse(ctx context.Context, q question) (analysis, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.QueryTimeout)
	defer cancel()
	f, scope, err := s.settled(ctx, q)
	if err != nil {
		return analysis{}, err
	}
	leave, err := s.analysing.Enter(ctx)
	if err != nil {
		return analysis{}, err
	}
	defer leave()
	out := newStats(f, s.roles)
	out.Sample, out.DetailsFrom = s.sample(f), scope.From
	b, err := s.store.Breakdowns(ctx, scope, s.roles, maxNames)
	if err != nil {
		return analysis{}, err
	}
	quality, err := s.store.Quality(ctx, scope, s.roles, out.Sample)
	if err != nil {
		return analysis{}, err
	}
	stages := s.cfg.Stages.Names()
	legs, err := s.store.Latencies(ctx, scope, stages, s.roles, out.Sample)
	if err != nil {
		return analysis{}, err
	}
	out.add(b, quality)
	out.Throughput = newThroughput(legs, stages)
	return analysis{out, f}, nil
}

// settled returns a funnel and the scope of the events that it counted and that
// the table still holds. Where the funnel comes from the mirror, that may be
// ahead of its sequence for a moment after it has loaded; then another is asked
// for and, in the end, what the table has up to the sequence is taken.
func (s *Service) settled(ctx context.Context, q question) (Funnel, store.Scope, error) {
	for attempt := 1; ; attempt++ {
		changed := s.mirror.Changed()
		f, err := s.funnel(ctx, q, mirror.Auto, 0)
		if err != nil {
			return f, store.Scope{}, err
		}
		cut, err := s.cut(ctx, f.at)
		if err != nil {
			return f, store.Scope{}, err
		}
		scope := scopeOf(q, reads.Window{From: f.From, To: f.To, Live: q.spec.Live()}, cut)
		before, err := s.retiredBefore(ctx)
		if err != nil {
			return f, scope, err
		}
		if scope.From.Before(before) { // the table holds only what is later
			scope.From = before
			return f, scope, nil
		}
		counts, err := s.store.Counts(ctx, scope)
		if err != nil || agree(f, counts) {
			return f, scope, err
		}
		if attempt == settling {
			err = s.recount(ctx, &f, scope, counts)
			return f, scope, err
		}
		select {
		case <-changed:
		case <-time.After(settleWait):
		case <-ctx.Done():
			return f, scope, ctx.Err()
		}
	}
}

func agree(f Funnel, counts map[string]uint64) bool {
	for _, stage := range f.Stages {
		if stage.Count != counts[stage.Name] {
			return false
		}
	}
	return true
}

// recount puts into a funnel what the table has.
func (s *Service) recount(ctx context.Context, f *Funnel, scope store.Scope, counts map[string]uint64) error {
	s.deps.Log.Debug("the funnel is not of the sequence that it names; counting in the table",
		"folded_seq", f.Stream.FoldedSeq, "from", scope.From)
	var exact map[string]store.Stage
	if f.UniqueMethod == string(mirror.Exact) {
		var err error
		if exact, err = s.store.Exact(ctx, scope); err != nil {
			return err
		}
	}
	for i := range f.Stages {
		stage := &f.Stages[i]
		stage.Count = counts[stage.Name]
		if exact != nil {
			stage.UniqueArticles = exact[stage.Name].Articles
		}
		stage.UniqueArticles = min(stage.UniqueArticles, stage.Count)
	}
	return nil
}

// sample returns of how many articles one is looked at where that takes memory
// for each, so that it is bounded. Hashes of articles are uniform.
func (s *Service) sample(f Funnel) uint32 {
	var events uint64
	for _, stage := range f.Stages {
		events += stage.Count
	}
	return oneIn(events, s.cfg.ExactEvents)
}

func oneIn(n uint64, limit int) uint32 {
	return uint32(min(max(1, math.Ceil(float64(n)/float64(limit))), math.MaxUint32))
}

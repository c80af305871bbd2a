package mirror

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// Uniques is how distinct articles are wanted.
type Uniques string

// Auto is Exact where the mirror holds the articles of the window, else
// Sketch.
const (
	Auto   Uniques = "auto"
	Exact  Uniques = "exact"
	Sketch Uniques = "sketch"
)

// Stage is what a window holds of one stage.
type Stage struct {
	Events   uint64
	Articles uint64 // distinct ones
}

// Answer is the funnel of a window.
type Answer struct {
	Window reads.Window // as it was asked for
	// From is when the window truly begins: with the quarter, where that has
	// too many events to be split.
	From time.Time
	End  time.Time // before what time the events that count have happened
	// Widened says that From is earlier because the database does not answer.
	Widened bool
	Stages  []Stage // in the order of the pipeline
	Exact   bool    // whether Articles are, or are estimates
	Position
}

// At makes the window of a question as it is at a time, which is open on the right
// (window.Window.Live).
type At func(now time.Time) reads.Window

// view is a question and what has been found for it.
type view struct {
	source  string
	uniques Uniques
	window  reads.Window
	request uint64 // the state's clock when it was asked, or asked again
	renewed int    // how often it was asked again
	late    bool   // it does without what is not loaded, where that is possible
	widened bool
	from    time.Time
	first   quarter // first whole quarter of the window
	split   bool    // the window begins within the quarter before

	series  *series
	partial *partialQuarter // nil when not split
	sketch  *sketch
	at      Position
}

func newView(s *state, source string, w reads.Window, uniques Uniques) view {
	v := view{source: source, uniques: uniques, window: w, request: s.tick(), from: w.From}
	v.split, v.first = split(v.from)
	return v
}

// within tells whether a state counts everything of the window. The lock is held.
func (v *view) within(s *state) bool {
	first := v.first
	if v.split {
		first--
	}
	end := v.window.End().Add(time.Duration(funnel.Quarter)*time.Second - 1)
	return s.covers(first, quarter(max(0, end.Unix())/int64(funnel.Quarter)))
}

// maxStates is how many states a question meets before ErrClock.
const maxStates = 4

// Funnel answers a live window, made by the mirror's clock. Where it does not hold what
// the window needs, it loads that first, everything when the clock has been set
// (invariant 5). It returns ErrNotHeld when exact articles are wanted but there are too
// many, ErrBusy when too many others wait, or what it loads is outdated each time, and
// ErrClock.
func (m *Mirror) Funnel(ctx context.Context, source string, at At, uniques Uniques) (Answer, error) {
	var v view
	var state *state
	for states := 0; ; {
		m.mu.Lock()
		if m.state == nil {
			defer m.mu.Unlock()
			return Answer{}, m.reason()
		}
		if state != m.state { // also after a reload meanwhile
			state = m.state
			v = newView(state, source, at(m.cfg.Now()), uniques)
			states++
		}
		if !v.within(state) {
			m.outdated()
			changed, err := m.changed, m.err
			m.mu.Unlock()
			switch {
			case err != nil:
				return Answer{}, err
			case states >= maxStates:
				return Answer{}, ErrClock
			}
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return Answer{}, ctx.Err()
			}
		}
		missing, err := m.gather(state, &v)
		if err != nil {
			m.mu.Unlock()
			return Answer{}, err
		}
		if missing == nil {
			break
		}
		m.mu.Unlock()
		if err := m.await(ctx, &v, missing); err != nil {
			return Answer{}, err
		}
	}
	v.at = m.pos.of(state.folded)
	if v.sketch == nil {
		defer m.mu.Unlock()
		return v.exact(state), nil
	}
	return m.estimate(state, &v)
}

// await waits for a load, and returns an error if the question cannot be answered. What
// fails, or is late, is asked for once more without what it loads.
func (m *Mirror) await(ctx context.Context, v *view, missing *load) error {
	if v.late || missing == &v.series.load {
		return missing.wait(ctx)
	}
	limit := patience
	if m.slow.Load() {
		limit = brief
	}
	err := missing.waitPatiently(ctx, limit)
	if v.late = err != nil; err == errLate {
		m.slow.Store(true)
	}
	return ctx.Err()
}

// split tells whether a time lies within a quarter, and which is the first
// whole quarter from it on.
func split(from time.Time) (within bool, first quarter) {
	lo, _ := funnel.Align(from, from.Add(horizon))
	return !lo.Equal(from), quarter(lo.Unix() / int64(funnel.Quarter))
}

// gather finds what a view needs. It starts what has to be loaded and returns
// one load to wait for, nil when there is none. The lock is held.
func (m *Mirror) gather(s *state, v *view) (missing *load, err error) {
	// What this request has waited for serves it as far as it can, even if it had
	// to make room for others meanwhile.
	if v.series == nil || !v.series.loaded() {
		if v.series, err = m.seriesOf(s, v.source); err != nil {
			return nil, err
		}
	}
	if v.split && (v.partial == nil || !v.partial.loaded()) {
		v.partial = m.partialOf(s, v.first-1, v.request)
	}
	if !v.series.loaded() {
		return &v.series.load, nil
	}
	switch {
	case v.partial == nil:
	case !v.partial.loaded() && !v.late:
		return &v.partial.load, nil
	case !v.partial.loaded():
		v.widen(v.first-1, true)
	case v.partial.tooMany:
		v.widen(v.first-1, false)
	}
	held := v.series.articles.from <= v.first
	switch {
	case v.uniques == Exact && !held:
		return nil, ErrNotHeld
	case v.uniques != Sketch && held:
		v.sketch = nil
	default:
		if v.sketch == nil || !v.sketch.loaded() {
			v.sketch = m.sketchOf(s, v.series, v.first)
		}
		if !v.sketch.loaded() && !(v.late && v.useEarlierSketch(s)) {
			return &v.sketch.load, nil
		}
	}
	if !v.dropOutdated(s) {
		return nil, nil
	}
	if v.renewed++; v.renewed > maxRenewed {
		return nil, ErrBusy
	}
	v.request = s.tick()
	return m.gather(s, v)
}

// widen has the window begin with an earlier quarter.
func (v *view) widen(first quarter, widened bool) {
	v.from, v.split, v.first, v.partial, v.sketch = start(first), false, first, nil, nil
	v.widened = v.widened || widened
}

// useEarlierSketch has the window begin where the latest sketch does that begins before
// it and is loaded, unless that makes it more than an eighth longer. It tells whether
// there is one. The lock is held.
func (v *view) useEarlierSketch(s *state) bool {
	most := v.window.To.Sub(v.window.From) / 8
	var found *sketch
	for first, k := range v.series.sketches {
		if k.loaded() && first <= v.first && first >= s.base && v.window.From.Sub(start(first)) <= most &&
			(found == nil || first > found.first) {
			found = k
		}
	}
	if found == nil {
		return false
	}
	v.widen(found.first, true)
	v.sketch, found.used = found, s.tick()
	return true
}

// maxRenewed is how often a view looks again for what was outdated when it had
// all else.
const maxRenewed = 3

// dropOutdated drops what may have missed a delta since it was loaded, as what is
// evicted does, and tells whether there is such (invariant 4). The lock is held.
func (v *view) dropOutdated(s *state) bool {
	outdated := false
	if s.series[v.source] != v.series {
		v.series, v.sketch, outdated = nil, nil, true
	}
	if v.sketch != nil && v.series.sketches[v.first] != v.sketch {
		v.sketch, outdated = nil, true
	}
	if v.partial != nil && (v.partial.stale || s.partials[v.partial.quarter] != v.partial) {
		v.partial, outdated = nil, true
	}
	return outdated
}

// events counts the events of a view. The lock is held.
func (v *view) events(s *state) Answer {
	a := Answer{
		Window: v.window, From: v.from, End: start(s.end()), Widened: v.widened, Stages: make([]Stage, len(s.stages)), Position: v.at,
	}
	for i := range a.Stages {
		a.Stages[i].Events = v.series.counts[i].since(v.first)
	}
	if v.partial != nil {
		v.partial.of(
			v.source, v.partial.from(v.from.UnixNano()), func(e *singleEvent, _ bool) { a.Stages[e.stage].Events++ },
		)
	}
	return a
}

// exact answers from what is held. The lock is held.
func (v *view) exact(s *state) Answer {
	a := v.events(s)
	a.Exact = true
	articles := &v.series.articles
	for i := range a.Stages {
		a.Stages[i].Articles = articles.since(i, v.first)
	}
	if v.partial != nil {
		v.partial.of(v.source, v.partial.from(v.from.UnixNano()), func(e *singleEvent, distinct bool) {
			if distinct && !articles.seenAfter(int(e.stage), e.article, v.first-1) {
				a.Stages[e.stage].Articles++
			}
		})
	}
	a.clamp()
	return a
}

// estimate answers from a sketch. It is called with the lock held and
// releases it: estimating takes milliseconds.
func (m *Mirror) estimate(s *state, v *view) (Answer, error) {
	a := v.events(s)
	k, of := v.sketch, estimate{version: v.sketch.version, partial: v.partial}
	if v.partial != nil {
		of.partialFrom = v.partial.from(v.from.UnixNano())
	}
	if c := k.cache; c.articles != nil && c.version == of.version && c.partial == of.partial &&
		c.partialFrom == of.partialFrom {
		of = c
		m.mu.Unlock()
	} else {
		sets := k.clone()
		m.mu.Unlock()
		if v.partial != nil {
			v.partial.of(v.source, of.partialFrom, func(e *singleEvent, _ bool) { sets[e.stage].Insert(e.article) })
		}
		for _, set := range sets {
			of.articles = append(of.articles, set.Estimate())
		}
		m.mu.Lock()
		k.cache = of
		m.mu.Unlock()
	}
	for i := range a.Stages {
		a.Stages[i].Articles = of.articles[i]
	}
	a.clamp()
	return a, nil
}

// clamp keeps the articles of each stage within its events: an estimate may
// exceed them, and so may articles that were loaded a moment later.
func (a *Answer) clamp() {
	for i := range a.Stages {
		a.Stages[i].Articles = min(a.Stages[i].Articles, a.Stages[i].Events)
	}
}

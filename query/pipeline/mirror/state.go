package mirror

import (
	"maps"
	"math"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// state is everything held between one load of everything and the next. It is
// guarded by the mirror's lock.
type state struct {
	stages   map[string]int
	base     quarter // nothing before is held
	leftOut  quarter // the first one behind maxQuarters of which an event was left out; else the last there is
	clock    uint64  // counts uses, to find what has not been used for long
	series   map[string]*series
	partials map[quarter]*partialQuarter
	folded   map[uint32]uint64 // by slot group: everything up to it is applied
	baseline map[uint32]funnel.Baseline
}

func newState(
	stages []string, base quarter, folded map[uint32]uint64, baseline map[uint32]funnel.Baseline,
) *state {
	s := &state{
		stages: make(map[string]int, len(stages)), base: base, leftOut: math.MaxUint32,
		series: map[string]*series{}, partials: map[quarter]*partialQuarter{}, folded: maps.Clone(folded),
		baseline: maps.Clone(baseline),
	}
	for i, name := range stages {
		s.stages[name] = i
	}
	s.series[funnel.AllSources] = newSeries(funnel.AllSources, len(stages), base)
	return s
}

func (s *state) tick() uint64 {
	s.clock++
	return s.clock
}

// admit tells whether the state counts an event of a quarter. It notes what it leaves
// out at the far end, so that covers knows.
func (s *state) admit(q quarter) bool {
	if q >= s.base+maxQuarters {
		s.leftOut = min(s.leftOut, q)
		return false
	}
	return q >= s.base
}

// covers tells whether the state counts every event from one quarter until another
// one begins (invariant 5).
func (s *state) covers(first, end quarter) bool { return first >= s.base && end <= s.end() }

// end is the first quarter behind those that the state holds.
func (s *state) end() quarter { return min(s.base+maxQuarters, s.leftOut) }

// apply takes all parts of a delta.
func (s *state) apply(parts []*funnel.Delta) {
	for _, t := range s.series {
		t.begin(parts[0].Group, parts[0].From)
	}
	for _, d := range parts {
		s.applyPart(d)
	}
	s.folded[parts[0].Group] = parts[0].To
}

func (s *state) applyPart(d *funnel.Delta) {
	stages := make([]int, len(d.Stages))
	for i, name := range d.Stages {
		stages[i] = s.stage(name)
	}
	named := make([]*series, len(d.Sources))
	for i, name := range d.Sources {
		named[i] = s.series[name]
	}
	all, b := s.series[funnel.AllSources], batch{d.Group, d.To}
	for _, e := range d.Entries {
		c := cell{stages[e.Stage], e.Quarter / quarter(funnel.Quarter)}
		if c.stage < 0 || !s.admit(c.quarter) {
			continue
		}
		if g := s.partials[c.quarter]; g != nil && g.born > 0 { // a load that has not begun will see it
			g.stale = true
		}
		all.add(b, c, e.Article)
		if t := named[e.Source]; t != nil && t != all {
			t.add(b, c, e.Article)
		}
	}
}

// stage returns a stage's place in the pipeline, -1 for one that is not (or no
// longer) part of it.
func (s *state) stage(name string) int {
	if i, ok := s.stages[name]; ok {
		return i
	}
	return -1
}

// tend forgets what is too old and what exceeds the bounds.
func (s *state) tend(base quarter, l Limits) {
	s.base = max(s.base, base)
	for _, t := range s.series {
		if t.loaded() {
			t.trim(s.base, l.Articles)
		}
	}
	for len(s.series)-1 > l.Sources {
		t := s.leastUsedSource()
		if t == nil {
			break
		}
		delete(s.series, t.source)
	}
	s.boundArticles(l.Articles)
	s.dropSketches(l.Sketches)
	s.dropPartials(l.Partials)
}

// loading returns how many series are not loaded yet.
func (s *state) loading() int {
	n := 0
	for _, t := range s.series {
		if !t.loaded() {
			n++
		}
	}
	return n
}

// boundArticles forgets the older half of the largest single source, until all
// of them together hold no more than a quarter more articles than limit. None is
// evicted for its articles: it would be loaded again as soon as it is asked for,
// and evict another.
func (s *state) boundArticles(limit int) {
	for {
		sum := 0
		var largest *series
		for _, t := range s.series {
			if t.source == funnel.AllSources || !t.loaded() {
				continue
			}
			sum += t.articles.size
			if largest == nil || t.articles.size > largest.articles.size {
				largest = t
			}
		}
		if sum <= limit+limit/4 {
			return
		}
		x := &largest.articles
		size := x.size
		if x.raise(firstWithin(x.seen, size/2)); x.size == size {
			return
		}
	}
}

func (s *state) leastUsedSource() *series {
	var least *series
	for _, t := range s.series {
		if t.source != funnel.AllSources && t.loaded() && (least == nil || t.used < least.used) {
			least = t
		}
	}
	return least
}

func (s *state) dropSketches(limit int) {
	for {
		n := 0
		var of *series
		var least *sketch
		for _, t := range s.series {
			n += len(t.sketches)
			for _, k := range t.sketches {
				if k.loaded() && (least == nil || k.used < least.used) {
					of, least = t, k
				}
			}
		}
		if n <= limit || least == nil {
			return
		}
		delete(of.sketches, least.first)
	}
}

func (s *state) dropPartials(limit int) {
	for len(s.partials) > limit {
		var least *partialQuarter
		for _, e := range s.partials {
			if e.loaded() && (least == nil || e.used < least.used) {
				least = e
			}
		}
		if least == nil {
			return
		}
		delete(s.partials, least.quarter)
	}
}

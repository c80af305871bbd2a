package mirror

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// loadsAtOnce is how many loads of a kind run side by side, besides that of all
// sources.
const loadsAtOnce = 4

// loadPlaces bound how many loads run side by side. Each kind has places of its
// own: that sources are asked for must not hold up who asks for all of them.
type loadPlaces struct{ series, sketches, partials chan struct{} }

func newLoadPlaces() loadPlaces {
	return loadPlaces{
		series:   make(chan struct{}, loadsAtOnce),
		sketches: make(chan struct{}, loadsAtOnce),
		partials: make(chan struct{}, loadsAtOnce),
	}
}

// spawn runs a load, as soon as one of its places is free, that ends with the
// mirror: whoever asked for it may have gone by then. The lock is held.
func (m *Mirror) spawn(places chan struct{}, l *load, run func()) {
	if m.ctx.Err() != nil {
		l.finish(m.ctx.Err())
		return
	}
	m.loads.Go(func() {
		places <- struct{}{}
		defer func() { <-places }()
		run()
	})
}

// finish ends a load.
func (m *Mirror) finish(l *load, err error) {
	if err == nil {
		m.slow.Store(false)
	}
	l.finish(err)
}

// stop ends all loads and waits for them.
func (m *Mirror) stop() {
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	m.loads.Wait()
}

// loadSeries loads a series.
func (m *Mirror) loadSeries(s *state, t *series) {
	err := m.loadCounts(s, t)
	if err == nil {
		err = m.awaitDeltas(s, t)
	}
	if err == nil {
		err = m.loadArticles(s, t)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("load the funnel of source %q: %w", t.source, err)
		if t.source != funnel.AllSources {
			delete(s.series, t.source)
		}
	}
	t.dropWatermarks(s.folded)
	t.used = s.tick() // by those who have waited
	m.finish(&t.load, err)
	m.tend(s)
}

func (m *Mirror) loadCounts(s *state, t *series) error {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.LoadTimeout)
	defer cancel()
	m.mu.Lock()
	base := s.base
	m.mu.Unlock()
	var rows []countRow
	err := m.store.QuarterCounts(ctx, t.source, start(base), func(c Count) error {
		if stage, known := s.stages[c.Stage]; known {
			at := cell{stage, c.Bucket / quarter(funnel.Quarter)}
			rows = append(rows, countRow{at, c.Group, uint32(c.Events), c.Seq})
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.setCounts(slices.DeleteFunc(rows, func(r countRow) bool { return !s.admit(r.quarter) }))
	// An article counts once at most, so that as many events hold no more.
	t.articles.raise(firstWithin(t.counts, m.cfg.Limits.Articles))
	return nil
}

// deltasWithin is how long a load waits for a batch that is under way.
const deltasWithin = 3 * time.Second

// errPassed is the error of a load that what is announced has passed meanwhile,
// by a checkpoint or with a gap: what it has read of a batch that was under way
// may be a part, and no delta may come that has the rest.
var errPassed = errors.New("what is announced has passed what was read")

// awaitDeltas waits until the deltas have come to where the rows of a series end
// (invariant 6). It returns ErrUnderWay when that takes too long.
func (m *Mirror) awaitDeltas(s *state, t *series) error {
	timeout := time.NewTimer(deltasWithin)
	defer timeout.Stop()
	for {
		m.mu.Lock()
		ahead, passed := m.ahead(s, t)
		moved := m.pos.moved
		m.mu.Unlock()
		switch {
		case !ahead:
			return nil
		case passed && t.source == funnel.AllSources:
			return errPassed
		}
		select {
		case <-moved:
		case <-timeout.C:
			return ErrUnderWay
		case <-m.ctx.Done():
			return m.ctx.Err()
		}
	}
}

// ahead tells whether a series has rows of a batch that the state has not
// applied, and whether it may never: all such batches are durable, or a gap has
// been found. The lock is held.
func (m *Mirror) ahead(s *state, t *series) (ahead, passed bool) {
	passed = true
	for group, f := range t.watermarks {
		if f.max > s.folded[group] && m.pos.heard(group) {
			ahead = true
			passed = passed && f.max <= m.pos.durable[group]
		}
	}
	return ahead, passed || m.want
}

// cut is up to where a state has counted, everything while it is not known which
// slot groups there are. The lock is held.
func (m *Mirror) cut(s *state) []uint64 {
	if groups := m.pos.groups(s.folded); groups != nil {
		return groups
	}
	return []uint64{math.MaxUint64}
}

func (m *Mirror) loadArticles(s *state, t *series) error {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.LoadTimeout)
	defer cancel()
	m.mu.Lock()
	first, any := firstCounted(t.counts)
	from, to, cut := start(max(first, t.articles.from)), start(s.end()), m.cut(s)
	m.mu.Unlock()
	if !any { // as of a source that does not exist, for which all events would be looked through
		return nil
	}
	return m.store.LastSeen(ctx, t.source, from, to, cut, func(name string, bucket uint32, articles []uint64) error {
		stage, known := s.stages[name]
		if !known {
			return nil
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, article := range articles {
			t.articles.insert(stage, article, bucket/quarter(funnel.Quarter))
		}
		return nil
	})
}

// maxLoading is how many sources may be loading or wait to be. They do not end
// with those who asked for them.
const maxLoading = 16

// seriesOf returns the series of a source, which may still be loading. It returns
// ErrBusy when too many are. The lock is held, as for sketchOf and partialOf.
func (m *Mirror) seriesOf(s *state, source string) (*series, error) {
	t := s.series[source]
	if t == nil {
		if s.loading() >= maxLoading {
			return nil, ErrBusy
		}
		t = newSeries(source, len(s.stages), s.base)
		s.series[source] = t
		m.spawn(m.places.series, &t.load, func() { m.loadSeries(s, t) })
	}
	t.used = s.tick()
	return t, nil
}

func (m *Mirror) sketchOf(s *state, t *series, first quarter) *sketch {
	k := t.sketches[first]
	if k == nil {
		k = newSketch(first, len(s.stages))
		t.sketches[first] = k
		m.spawn(m.places.sketches, &k.load, func() { m.loadSketch(s, t, k) })
	}
	k.used = s.tick()
	return k
}

func (m *Mirror) loadSketch(s *state, t *series, k *sketch) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.LoadTimeout)
	defer cancel()
	sets := make([]funnel.Set, len(s.stages))
	m.mu.Lock()
	spans := funnel.Cover(start(k.first), start(s.end()))
	m.mu.Unlock()
	err := m.store.Sets(ctx, t.source, spans, func(name string, _ uint64, set *funnel.Set) error {
		if stage, known := s.stages[name]; known {
			return sets[stage].Merge(set)
		}
		return nil
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		err = k.merge(sets)
	}
	if err != nil {
		err = fmt.Errorf(
			"load the sketch of source %q from %s: %w", t.source, start(k.first).Format(time.RFC3339), err,
		)
		delete(t.sketches, k.first)
	}
	k.used = s.tick() // by those who have waited
	m.finish(&k.load, err)
	s.dropSketches(m.cfg.Limits.Sketches)
}

// partialOf returns the events of a quarter. One that is stale is loaded again,
// unless it is as young as the reader's request, or has too many events: they
// only become more.
func (m *Mirror) partialOf(s *state, q quarter, request uint64) *partialQuarter {
	e := s.partials[q]
	if e == nil || (e.stale && !e.tooMany && e.born < request) {
		e = &partialQuarter{load: newLoad(), quarter: q}
		s.partials[q] = e
		m.spawn(m.places.partials, &e.load, func() { m.loadPartial(s, e) })
	}
	e.used = s.tick()
	return e
}

func (m *Mirror) loadPartial(s *state, e *partialQuarter) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.LoadTimeout)
	defer cancel()
	var events []singleEvent
	sources := map[string]uint32{}
	n, limit := 0, m.cfg.Limits.PartialEvents
	m.mu.Lock()
	cut := m.cut(s)
	e.born = s.tick()
	m.mu.Unlock()
	err := m.store.SingleEvents(ctx, start(e.quarter), start(e.quarter+1), cut, limit+1, func(v Event) error {
		n++ // also those of stages that are no longer part of the pipeline
		stage, known := s.stages[v.Stage]
		if !known {
			return nil
		}
		id, known := sources[v.Source]
		if !known {
			id = uint32(len(sources))
			sources[v.Source] = id
		}
		events = append(events, singleEvent{at: v.At, article: v.Article, source: id, stage: uint16(stage)})
		return nil
	})
	if err == nil && n <= limit {
		e.fill(events, sources)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e.tooMany = n > limit
	if err != nil {
		err = fmt.Errorf("load the events of the quarter from %s: %w", start(e.quarter).Format(time.RFC3339), err)
		if s.partials[e.quarter] == e {
			delete(s.partials, e.quarter)
		}
	}
	e.used = s.tick() // by those who have waited
	m.finish(&e.load, err)
	s.dropPartials(m.cfg.Limits.Partials)
}

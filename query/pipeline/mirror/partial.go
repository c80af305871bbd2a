package mirror

import (
	"cmp"
	"slices"
	"sort"
)

// partialQuarter holds the single events of the quarter in which a window begins. It
// does not change once loaded; a late event makes it stale, and the next
// reader loads it again.
type partialQuarter struct {
	load
	quarter quarter
	born    uint64 // the mirror's clock when the load began; 0 before
	used    uint64
	stale   bool
	tooMany bool // more events than the mirror holds of one quarter
	events  []singleEvent
	sources map[string]uint32
}

type singleEvent struct {
	at      int64 // nanoseconds since 1970
	article uint64
	source  uint32
	stage   uint16
	// No later event of the quarter has this article and stage; of any
	// source, and of its own.
	last, lastOfSource bool
}

// fill takes the events of a load.
func (e *partialQuarter) fill(events []singleEvent, sources map[string]uint32) {
	slices.SortStableFunc(events, func(a, b singleEvent) int { return cmp.Compare(a.at, b.at) })
	type pair struct {
		article uint64
		source  uint32
		stage   uint16
	}
	const anySource = 1<<32 - 1
	seen := make(map[pair]struct{}, 2*len(events))
	first := func(p pair) bool {
		_, known := seen[p]
		seen[p] = struct{}{}
		return !known
	}
	for i := len(events) - 1; i >= 0; i-- {
		v := &events[i]
		v.last = first(pair{v.article, anySource, v.stage})
		v.lastOfSource = first(pair{v.article, v.source, v.stage})
	}
	e.events, e.sources = events, sources
}

// from returns the place of the first event at or after a time.
func (e *partialQuarter) from(at int64) int {
	return sort.Search(len(e.events), func(i int) bool { return e.events[i].at >= at })
}

// of returns the events of a source from place i on; distinct tells whether
// the event is the last one of its article and stage.
func (e *partialQuarter) of(source string, i int, yield func(v *singleEvent, distinct bool)) {
	id, known := e.sources[source]
	if !known && source != "" {
		return
	}
	for ; i < len(e.events); i++ {
		v := &e.events[i]
		switch {
		case source == "":
			yield(v, v.last)
		case v.source == id:
			yield(v, v.lastOfSource)
		}
	}
}

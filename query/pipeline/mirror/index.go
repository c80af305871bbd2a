package mirror

import "maps"

// index knows, by stage, the last quarter in which each article was seen, for
// articles seen in quarter from or later. Inserting is idempotent and
// commutes.
type index struct {
	from quarter
	last []map[uint64]quarter // by stage
	seen []history            // by stage: articles by the quarter they were last seen in
	size int                  // articles of all stages
}

func newIndex(stages int, base quarter) index {
	x := index{last: make([]map[uint64]quarter, stages), seen: make([]history, stages)}
	for i := range stages {
		x.last[i] = map[uint64]quarter{}
		x.seen[i].base = base
	}
	return x
}

func (x *index) insert(stage int, article uint64, q quarter) {
	if q < x.from {
		return
	}
	old, known := x.last[stage][article]
	if known && old >= q {
		return
	}
	if known {
		x.seen[stage].add(old, -1)
	} else {
		x.size++
	}
	x.last[stage][article] = q
	x.seen[stage].add(q, 1)
}

// since returns how many articles were seen at a stage in quarter q or later.
// It is right only for q >= from.
func (x *index) since(stage int, q quarter) uint64 { return x.seen[stage].since(q) }

// seenAfter tells whether an article was seen at a stage after quarter q.
func (x *index) seenAfter(stage int, article uint64, q quarter) bool {
	last, ok := x.last[stage][article]
	return ok && last > q
}

// raise forgets the articles that were not seen in quarter q or later.
func (x *index) raise(q quarter) {
	if q <= x.from {
		return
	}
	x.from, x.size = q, 0
	for stage, last := range x.last {
		maps.DeleteFunc(last, func(_ uint64, at quarter) bool { return at < q })
		x.seen[stage].trim(q)
		x.size += len(last)
	}
}

// bound forgets the oldest quarters once there are a quarter more articles
// than limit, so that it does so seldom.
func (x *index) bound(limit int) {
	if x.size <= limit+limit/4 {
		return
	}
	x.raise(firstWithin(x.seen, limit))
}

// firstWithin returns the earliest quarter from which on the histories sum up
// to at most limit.
func firstWithin(histories []history, limit int) quarter {
	var base, end quarter
	for i := range histories {
		base = histories[i].base
		end = max(end, base+quarter(len(histories[i].n)))
	}
	sum := 0
	for q := end; q > base; q-- {
		for i := range histories {
			if k := int(q - 1 - base); k < len(histories[i].n) {
				sum += int(histories[i].n[k])
			}
		}
		if sum > limit {
			return q
		}
	}
	return base
}

package mirror

import "maps"

// batch names what a delta announces.
type batch struct {
	group uint32
	to    uint64
}

// cell is a place in the counts of a series.
type cell struct {
	stage   int
	quarter quarter
}

// increment is a number of events that waits for the counts to be loaded.
type increment struct {
	batch
	cell
	n int32
}

// watermark says up to which sequence the loaded rows of a slot group are folded
// (invariant 2). It is dropped when the deltas have passed all of them, at the
// end of the load at the latest, unless it is not known how far the group is.
type watermark struct {
	max  uint64
	rows map[cell]uint64
}

// series is what the mirror holds of one source. Its fields are guarded by the
// mirror's lock.
type series struct {
	load   // of counts and articles
	source string
	used   uint64 // the mirror's clock at the last use

	counted    bool // counts are loaded; until then increments wait
	counts     []history
	watermarks map[uint32]*watermark
	waiting    []increment

	articles index
	sketches map[quarter]*sketch // by the quarter they begin with
}

func newSeries(source string, stages int, base quarter) *series {
	t := &series{
		load: newLoad(), source: source, counts: make([]history, stages),
		watermarks: map[uint32]*watermark{}, articles: newIndex(stages, base), sketches: map[quarter]*sketch{},
	}
	for i := range t.counts {
		t.counts[i].base = base
	}
	return t
}

// add applies one event of a batch.
func (t *series) add(b batch, c cell, article uint64) {
	t.count(b, c)
	t.articles.insert(c.stage, article, c.quarter)
	for _, s := range t.sketches {
		s.insert(c, article)
	}
}

func (t *series) count(b batch, c cell) {
	if t.counted {
		t.addCount(increment{b, c, 1})
		return
	}
	if n := len(t.waiting); n > 0 && t.waiting[n-1].batch == b && t.waiting[n-1].cell == c {
		t.waiting[n-1].n++
		return
	}
	t.waiting = append(t.waiting, increment{b, c, 1})
}

func (t *series) addCount(i increment) {
	if len(t.watermarks) > 0 {
		if f := t.watermarks[i.group]; f != nil && i.to <= f.rows[i.cell] {
			return
		}
	}
	t.counts[i.stage].add(i.quarter, i.n)
}

// begin prepares for a delta of a group that begins after a sequence.
func (t *series) begin(group uint32, from uint64) {
	if f := t.watermarks[group]; f != nil && from >= f.max {
		delete(t.watermarks, group)
	}
}

// dropWatermarks drops those that a state has reached: deltas of these groups end
// later. Of a group that is idle, or has ended, there may come none.
func (t *series) dropWatermarks(folded map[uint32]uint64) {
	maps.DeleteFunc(t.watermarks, func(group uint32, f *watermark) bool { return f.max <= folded[group] })
}

// setCounts takes the rows of a load, then what has come in meanwhile.
func (t *series) setCounts(rows []countRow) {
	for _, r := range rows {
		t.counts[r.stage].add(r.quarter, int32(r.events))
		f := t.watermarks[r.group]
		if f == nil {
			f = &watermark{rows: map[cell]uint64{}}
			t.watermarks[r.group] = f
		}
		f.rows[r.cell] = r.seq
		f.max = max(f.max, r.seq)
	}
	t.counted = true
	for _, i := range t.waiting {
		t.addCount(i)
	}
	t.waiting = nil
}

// trim forgets what lies before a quarter, and bounds the articles.
func (t *series) trim(base quarter, limit int) {
	for i := range t.counts {
		t.counts[i].trim(base)
	}
	maps.DeleteFunc(t.sketches, func(first quarter, _ *sketch) bool { return first < base })
	// Articles are swept a day at a time: each sweep walks all of them.
	if base >= t.articles.from+96 {
		t.articles.raise(base)
	}
	t.articles.bound(limit)
}

// countRow is a row of a load.
type countRow struct {
	cell
	group  uint32
	events uint32
	seq    uint64
}

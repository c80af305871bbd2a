package mirror

import "github.com/millrace-io/millrace/schemas/funnel"

// sketch holds the articles of a series from a quarter on. Inserting is
// idempotent and commutes, so deltas go in while it loads.
type sketch struct {
	load
	first   quarter
	used    uint64
	version uint64 // counts insertions
	sets    []funnel.Set
	cache   estimate
}

// estimate keeps what was last estimated of a sketch: it takes milliseconds.
type estimate struct {
	version     uint64
	partial     *partialQuarter
	partialFrom int // place of the first event of the partial quarter that counts
	articles    []uint64
}

func newSketch(first quarter, stages int) *sketch {
	return &sketch{load: newLoad(), first: first, sets: make([]funnel.Set, stages)}
}

func (s *sketch) insert(c cell, article uint64) {
	if c.quarter >= s.first {
		s.sets[c.stage].Insert(article)
		s.version++
	}
}

func (s *sketch) merge(sets []funnel.Set) error {
	s.version++
	for i := range sets {
		if err := s.sets[i].Merge(&sets[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *sketch) clone() []*funnel.Set {
	sets := make([]*funnel.Set, len(s.sets))
	for i := range s.sets {
		sets[i] = s.sets[i].Clone()
	}
	return sets
}

package main

import "github.com/millrace-io/millrace/schemas/funnel"

// truth is the plain recount of a set of facts.
type truth struct {
	facts  map[string]*fact // by identity
	bucket map[funnel.Key]*tally
	// oldest is the earliest quarter.
	oldest int64
}

// tally counts events and distinct articles.
type tally struct {
	events   int
	articles map[string]bool
}

func (t *tally) add(f *fact) {
	t.events++
	t.articles[f.article] = true
}

func newTally() *tally { return &tally{articles: map[string]bool{}} }

func recount(facts map[string]*fact) truth {
	t := truth{facts: facts, bucket: map[funnel.Key]*tally{}, oldest: 1 << 40}
	for _, f := range facts {
		t.oldest = min(t.oldest, f.quarter)
		for _, w := range funnel.Widths {
			for _, source := range []string{funnel.AllSources, f.source} {
				key := funnel.Key{Width: w, Bucket: uint32(w.Floor(f.quarter)), Source: source, Stage: f.stage}
				if t.bucket[key] == nil {
					t.bucket[key] = newTally()
				}
				t.bucket[key].add(f)
			}
		}
	}
	return t
}

// stages counts by stage what a source has from a quarter on; an empty source
// is all of them.
func (t truth) stages(source string, from int64) []count {
	tallies := map[string]*tally{}
	for _, name := range stageNames() {
		tallies[name] = newTally()
	}
	for _, f := range t.facts {
		if (source == "" || f.source == source) && f.quarter >= from {
			tallies[f.stage].add(f)
		}
	}
	var out []count
	for _, name := range stageNames() {
		out = append(out, count{name, tallies[name].events, len(tallies[name].articles)})
	}
	return out
}

// sources are those that have events.
func (t truth) sources() map[string]bool {
	all := map[string]bool{}
	for _, f := range t.facts {
		all[f.source] = true
	}
	return all
}

// pairs counts articles, and the stages that each has reached.
func (t truth) pairs() (articles, journeys int) {
	seen, pairs := map[string]bool{}, map[string]bool{}
	for _, f := range t.facts {
		seen[f.article], pairs[f.article+"\x00"+f.stage] = true, true
	}
	return len(seen), len(pairs)
}

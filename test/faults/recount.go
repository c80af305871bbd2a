package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// truth is the plain recount of a set of facts.
type truth struct {
	facts  map[string]*fact // by identity
	told   []*told          // those of them that are on the stream, by when they happened
	last   uint64           // sequence at which the stream ends
	bucket map[funnel.Key]*tally
	// oldest is the earliest quarter.
	oldest int64
}

// tally counts events and distinct articles.
type tally struct {
	events   int
	articles map[uint64]struct{}
}

func (t *tally) add(f *fact) {
	t.events++
	t.articles[f.article64()] = struct{}{}
}

func newTally() *tally { return &tally{articles: map[uint64]struct{}{}} }

// recount counts facts, and reads what is told of them where they were first
// sighted.
func recount(facts map[string]*fact, j *journal) (truth, error) {
	t := truth{facts: facts, last: j.last, bucket: map[funnel.Key]*tally{}, oldest: 1 << 40}
	for id, f := range facts {
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
		if seq := j.first[id]; seq > 0 { // else it is lost, which is told elsewhere
			e, err := tell(f, seq, j.said[id])
			if err != nil {
				return t, err
			}
			t.told = append(t.told, e)
		}
	}
	slices.SortFunc(t.told, byTime)
	return t, nil
}

// byTime is the order in which events happened; of those of one moment, that
// of the stream.
func byTime(a, b *told) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) }

// scope says which events are counted.
type scope struct {
	source string // empty: all
	from   int64  // from when on, Unix nanoseconds
	firsts bool   // without reclassifications
}

// in are the events of a scope, by when they happened.
func (t truth) in(s scope) (events []*told) {
	begin := sort.Search(len(t.told), func(i int) bool { return t.told[i].at >= s.from })
	for _, e := range t.told[begin:] {
		if (s.source == "" || e.Source == s.source) && !(s.firsts && e.meta.reclassified) {
			events = append(events, e)
		}
	}
	return events
}

// byStage are the tallies of events, by place in the pipeline.
func byStage(events []*told) []*tally {
	places, tallies := map[string]*tally{}, []*tally{}
	for _, name := range stageNames() {
		places[name] = newTally()
		tallies = append(tallies, places[name])
	}
	for _, e := range events {
		places[e.Stage].add(e.fact)
	}
	return tallies
}

// stages counts events by stage.
func stages(events []*told) []count {
	var out []count
	for i, tally := range byStage(events) {
		out = append(out, count{stageNames()[i], tally.events, len(tally.articles)})
	}
	return out
}

// sources are those that have events, and all together.
func (t truth) sources() []string {
	all := map[string]bool{"": true}
	for _, e := range t.told {
		all[e.Source] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// bySize are the sources, most events first.
func (t truth) bySize() (all httpSources) {
	counts := map[string]int{}
	for _, e := range t.told {
		counts[e.Source]++
	}
	for name, n := range counts {
		all.Sources = append(all.Sources, httpSource{name, n})
	}
	slices.SortFunc(all.Sources, func(a, b httpSource) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// byArticle are the events of each article, by when they happened.
func (t truth) byArticle() map[string][]*told {
	all := map[string][]*told{}
	for _, e := range t.told {
		all[e.hash] = append(all[e.hash], e)
	}
	return all
}

// articles are the rows of the view of that name: each is of the article's
// first event.
func (t truth) articles() map[string]string {
	rows := map[string]string{}
	for hash, events := range t.byArticle() {
		e := events[0]
		rows[hash] = line(e.fact.article, e.domain, e.Source, e.at)
	}
	return rows
}

// journeys are the rows of the view of that name.
func (t truth) journeys() map[string]string {
	first, counts := map[string]int64{}, map[string]int{}
	for _, e := range t.told {
		key := line(e.hash, e.Stage)
		if counts[key]++; counts[key] == 1 {
			first[key] = e.at
		}
	}
	rows := map[string]string{}
	for key, n := range counts {
		rows[key] = line(first[key], n)
	}
	return rows
}

// bySource are events and articles of each stage and source.
func (t truth) bySource() map[string]string {
	tallies := map[string]*tally{}
	for _, e := range t.told {
		key := line(e.Stage, e.Source)
		if tallies[key] == nil {
			tallies[key] = newTally()
		}
		tallies[key].add(e.fact)
	}
	rows := map[string]string{}
	for key, n := range tallies {
		rows[key] = line(n.events, len(n.articles))
	}
	return rows
}

// line writes columns as one text.
func line(columns ...any) (text string) {
	for i, c := range columns {
		if i > 0 {
			text += "|"
		}
		text += fmt.Sprint(c)
	}
	return text
}

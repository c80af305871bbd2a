package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/schemas/funnel"
)

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

// articles are their URLs and hosts, by hash.
func (t truth) articles() map[string]string {
	all := map[string]string{}
	for _, f := range t.facts {
		host, _, _ := strings.Cut(strings.TrimPrefix(f.article, "https://"), "/")
		all[hex.EncodeToString(f.hash[:])] = f.article + " " + host
	}
	return all
}

// journeys are the events of each article and stage.
func (t truth) journeys() map[string]string {
	counts := map[string]int{}
	for _, f := range t.facts {
		counts[hex.EncodeToString(f.hash[:])+" "+f.stage]++
	}
	all := map[string]string{}
	for key, n := range counts {
		all[key] = strconv.Itoa(n)
	}
	return all
}

// bySource are events and articles of each stage and source.
func (t truth) bySource() map[string]string {
	tallies := map[string]*tally{}
	for _, f := range t.facts {
		key := f.stage + " " + f.source
		if tallies[key] == nil {
			tallies[key] = newTally()
		}
		tallies[key].add(f)
	}
	all := map[string]string{}
	for key, n := range tallies {
		all[key] = fmt.Sprint(n.events, " ", len(n.articles))
	}
	return all
}

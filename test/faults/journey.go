package main

import (
	"maps"
	"slices"
)

// journey is the answer of GET /articles/{url_hash}/journey.
type journey struct {
	Hash      string         `json:"url_hash"`
	URL       string         `json:"article_url"`
	Domain    string         `json:"domain"`
	Source    string         `json:"source_name"`
	Canonical string         `json:"canonical_url"`
	Traces    []string       `json:"trace_ids"`
	Elapsed   *float64       `json:"elapsed_seconds"`
	Stages    []journeyStage `json:"stages"`
	Events    []httpEvent    `json:"events"`
}

type journeyStage struct {
	Name    string   `json:"name"`
	FirstAt *string  `json:"first_at"`
	Events  int      `json:"events"`
	Latency *float64 `json:"latency_seconds"`
}

// newJourney tells of the events of one article, by when they happened.
func newJourney(events []*told) journey {
	first := events[0]
	j := journey{
		Hash: first.hash, URL: first.fact.article, Domain: first.domain, Source: first.Source,
		Traces: []string{},
	}
	for _, e := range events {
		j.Events = append(j.Events, e.event())
		if e.Trace != "" && !slices.Contains(j.Traces, e.Trace) {
			j.Traces = append(j.Traces, e.Trace)
		}
		if j.Canonical == "" {
			j.Canonical = e.Canonical
		}
	}
	at, begin, before := reach(events)[first.hash], -1, -1
	for i, name := range stageNames() {
		stage := journeyStage{Name: name, Events: byStage(events)[i].events}
		if at[i] > 0 {
			text := stamp(at[i])
			stage.FirstAt = &text
			if before >= 0 {
				stage.Latency, j.Elapsed = at.seconds(before, i), at.seconds(begin, i)
			} else {
				begin = i
			}
			before = i
		}
		j.Stages = append(j.Stages, stage)
	}
	return j
}

func (r *reached) seconds(from, to int) *float64 {
	seconds := 60 * r.minutes(from, to)
	return &seconds
}

// furthest are the events of the article that has reached the most stages, by
// the most events; and of the one that has among those with a canonical URL.
func (t truth) furthest() (found [][]*told) {
	var any, canonical []*told
	all := t.byArticle()
	for _, hash := range slices.Sorted(maps.Keys(all)) {
		events := all[hash]
		if further(events, any) {
			any = events
		}
		if events[0].Canonical != "" && further(events, canonical) {
			canonical = events
		}
	}
	for _, events := range [][]*told{any, canonical} {
		if events != nil {
			found = append(found, events)
		}
	}
	return found
}

func further(a, b []*told) bool {
	stages := func(events []*told) (n int) {
		for _, tally := range byStage(events) {
			n += min(1, tally.events)
		}
		return n
	}
	return b == nil || stages(a) > stages(b) || stages(a) == stages(b) && len(a) > len(b)
}

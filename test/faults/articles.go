package main

import (
	"cmp"
	"slices"
)

// httpArticle is an article as GET /articles has it, but for how long it has
// been stuck, which grows.
type httpArticle struct {
	Hash      string   `json:"url_hash"`
	URL       string   `json:"article_url"`
	Source    string   `json:"source_name"`
	Trace     string   `json:"trace_id"`
	Stage     string   `json:"stage"`
	ReachedAt string   `json:"reached_at"`
	Until     string   `json:"until_stage"`
	UntilAt   string   `json:"until_at,omitempty"`
	LastAt    string   `json:"last_event_at,omitempty"`
	Events    int      `json:"events"`
	Seconds   *float64 `json:"seconds"`
}

type httpArticles struct {
	Articles []httpArticle `json:"articles"`
	Next     string        `json:"next_cursor"`
}

// newArticle tells of an article what its events do, by when they happened: its
// source is that of the first, its trace the newest.
func newArticle(events []*told, stage int) httpArticle {
	first := events[0]
	a := httpArticle{Hash: first.hash, URL: first.fact.article, Source: first.Source, Stage: stageNames()[stage]}
	for _, e := range events {
		if e.Trace != "" {
			a.Trace = e.Trace
		}
	}
	a.ReachedAt = stamp(reach(events)[first.hash][stage])
	return a
}

// stuck are the articles that had reached a stage by some time, Unix
// nanoseconds, and none after it, at any time; the longest stuck first.
func (t truth) stuck(stage int, by int64) (all []httpArticle) {
	places := map[string]int64{}
	for hash, events := range t.byArticle() {
		at := reach(events)[hash]
		if at[stage] == 0 || at[stage] > by ||
			slices.ContainsFunc(at[stage+1:], func(later int64) bool { return later > 0 }) {
			continue
		}
		a := newArticle(events, stage)
		a.LastAt, a.Events = stamp(events[len(events)-1].at), len(events)
		places[hash] = at[stage]
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b httpArticle) int {
		return cmp.Or(cmp.Compare(places[a.Hash], places[b.Hash]), cmp.Compare(a.Hash, b.Hash))
	})
	return all
}

// slowest are the articles that reached two stages from some time on, Unix
// nanoseconds, by how long they took; the slowest first. Only events of these
// stages since then are looked at.
func (t truth) slowest(stage, until int, from int64) (all []httpArticle) {
	both, took := map[string][]*told{}, map[string]int64{}
	for _, e := range t.in(scope{from: from}) {
		if e.Stage == stageNames()[stage] || e.Stage == stageNames()[until] {
			both[e.hash] = append(both[e.hash], e)
		}
	}
	for hash, events := range both {
		at := reach(events)[hash]
		if at[stage] == 0 || at[until] == 0 {
			continue
		}
		a := newArticle(events, stage)
		a.Until, a.UntilAt, a.Seconds = stageNames()[until], stamp(at[until]), at.seconds(stage, until)
		took[hash] = max(0, at[until]-at[stage])
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b httpArticle) int {
		return cmp.Or(cmp.Compare(took[b.Hash], took[a.Hash]), cmp.Compare(a.Hash, b.Hash))
	})
	return all
}

// differArticles says where a list of articles differs.
func differArticles(got, want []httpArticle) string {
	if len(got) != len(want) {
		return differ(len(got), len(want)) + " articles"
	}
	for i := range want {
		if want[i].Seconds == nil {
			got[i].Seconds = nil
		}
		if text := differ(got[i], want[i]); text != "" {
			return text + " of " + want[i].Hash
		}
	}
	return ""
}

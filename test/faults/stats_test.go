package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// noon is when what is told here begins.
var noon = time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)

// tales are events of articles, in the order of the stream: minutes after noon,
// article, stage, source, and metadata.
func tales(t *testing.T, lines string) truth {
	t.Helper()
	facts, j := map[string]*fact{}, &journal{first: map[string]uint64{}, said: map[string]sighting{}}
	for text := range strings.Lines(lines) {
		var minutes float64
		var article, stage, source, metadata string
		if _, err := fmt.Sscan(text, &minutes, &article, &stage, &source, &metadata); err != nil {
			t.Fatal(text, err)
		}
		at := noon.Add(time.Duration(minutes * float64(time.Minute)))
		it := encode(event.Event{
			ArticleURL: "https://a.org/" + article, Stage: stage, SourceName: source,
			ServiceName: "s", OccurredAt: at,
		})
		body := strings.TrimSuffix(it.body, "}") + `,"metadata":` + metadata + "}"
		j.last++
		facts[it.fact.id], j.first[it.fact.id], j.said[it.fact.id] = it.fact, j.last, sighting{body, at}
	}
	w, err := recount(facts, j)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const someTales = `
0    one   crawled    x {}
1    one   crawled    x {"is_duplicate":true}
2    two   crawled    y {}
3    one   classified x {"model_version":"v1","quality_score":50,"topics":["a","b","a"]}
6    two   classified y {"model_version":"v1","quality_score":70.5,"topics":["a"]}
7    two   classified y {"model_version":"v2","quality_score":90,"topics":["c"],"is_reclassification":true}
8    three classified y {"model_version":"v2"}
9    one   published  x {"channel":"k"}
12   three published  y {"channel":"k"}
11   four  routed     y {}
16   two   published  y {}
-60  five  published  x {"backfilled":true,"channel":"l"}
`

// TestStats: statistics of a few events, counted by hand.
func TestStats(t *testing.T) {
	w := tales(t, strings.TrimSpace(someTales))
	got := asJSON(newStats(w.in(scope{from: noon.UnixNano()})))
	want := map[string]any{
		"crawl": map[string]any{
			"total_crawled": 3, "unique_urls": 2, "duplicates": 1,
			"by_source": map[string]int{"x": 2, "y": 1},
		},
		"classification": map[string]any{
			"total_classified": 4, "unique_articles": 3, "reclassifications": 1, "avg_quality_score": 210.5 / 3,
			"median_quality_score": 70.5,
			"by_model_version":     map[string]int{"v1": 2, "v2": 2},
			"by_topic":             map[string]int{"a": 2, "b": 1, "c": 1},
		},
		"publishing": map[string]any{
			"total_routed": 1, "total_published": 3, "failed_publishes": 0,
			"by_channel": map[string]int{"k": 2},
		},
		"throughput": map[string]any{
			"median_crawl_to_classify_mins": 3.5, "avg_crawl_to_classify_mins": 3.5,
			"median_classify_to_publish_mins": 8, "avg_classify_to_publish_mins": 8,
			"median_end_to_end_mins": 11.5, "avg_end_to_end_mins": 11.5, "articles": 2, "stages": []map[string]any{
				{"from": "crawled", "to": "classified", "articles": 2, "median_mins": 3.5, "avg_mins": 3.5},
				{"from": "classified", "to": "published", "articles": 3, "median_mins": 6, "avg_mins": 20.0 / 3},
			},
		},
	}
	if text := differ(got, want); text != "" {
		t.Error(text)
	}
	firsts := newStats(w.in(scope{source: "y", from: noon.UnixNano(), firsts: true}))
	if c := firsts.Classification; c.Total != 2 || c.Again != 0 || *c.Mean != 70.5 || firsts.Publishing.Published != 2 {
		t.Errorf("without reclassifications: %+v", firsts)
	}
	if none := newStats(nil); none.Classification.Mean != nil || none.Throughput.Median != nil ||
		none.Publishing.Routed != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// TestDrift: model versions of a few events, counted by hand.
func TestDrift(t *testing.T) {
	d := tales(t, strings.TrimSpace(someTales)).drift("", noon.Add(50*time.Hour))
	want := map[string]any{
		"model_versions": []any{
			map[string]any{
				"version": "v2", "articles_classified": 2, "avg_quality_score": 90,
				"topic_distribution": map[string]any{"c": 0.5}, "version_age_days": 2,
			},
			map[string]any{
				"version": "v1", "articles_classified": 2, "avg_quality_score": 60.25,
				"topic_distribution": map[string]any{"a": 1, "b": 0.5}, "version_age_days": 2,
			},
		},
		"drift_indicators": map[string]any{"quality_score_delta": 29.75, "topic_distribution_shift": 1},
		"comparison": map[string]any{
			"reference": map[string]any{
				"version": "v1", "classifications": 2, "articles": 2,
				"avg_quality_score": 60.25, "sample": 1,
			},
			"current": map[string]any{
				"version": "v2", "classifications": 2, "articles": 2, "avg_quality_score": 90,
				"sample": 1,
			},
			"tests": []any{
				map[string]any{
					"name": "population_stability_index", "of": "topics", "reference_size": 3,
					"current_size": 1,
				},
				map[string]any{
					"name": "jensen_shannon_distance", "of": "topics", "reference_size": 3,
					"current_size": 1,
				},
				map[string]any{
					"name": "kolmogorov_smirnov", "of": "quality_score", "reference_size": 2,
					"current_size": 1,
				},
				map[string]any{
					"name": "wasserstein_distance", "of": "quality_score", "reference_size": 2,
					"current_size": 1,
				},
			},
		},
	}
	if text := differ(d, want); text != "" {
		t.Error(text)
	}
}

// TestJourney: the way of an article, told by hand.
func TestJourney(t *testing.T) {
	w := tales(t, strings.TrimSpace(someTales))
	two := encode(event.Event{ArticleURL: "https://a.org/two"}).fact.hash
	j := newJourney(w.byArticle()[hex.EncodeToString(two[:])])
	if j.URL != "https://a.org/two" || j.Source != "y" || len(j.Events) != 4 || *j.Elapsed != 14*60 ||
		*j.Stages[4].Latency != 10*60 ||
		j.Stages[1].FirstAt != nil || *j.Stages[2].FirstAt != "2026-02-28T12:06:00Z" || j.Stages[2].Events != 2 ||
		j.Stages[0].Latency != nil {
		t.Errorf("%+v", j)
	}
	if far := w.furthest(); len(far) != 1 || len(far[0]) != 4 {
		t.Errorf("not the furthest: %+v", far)
	}
}

// TestArticles: articles that are stuck, or slow, told by hand.
func TestArticles(t *testing.T) {
	w := tales(t, strings.TrimSpace(someTales)+"\n5 six classified y {}\n2 six crawled x {}\n4 seven crawled x {}\n")
	names := func(articles []httpArticle) (list string) {
		for _, a := range articles {
			list += fmt.Sprint(a.URL, " ", a.Source, " ", a.ReachedAt[11:16], " ")
			if a.Seconds != nil {
				list += fmt.Sprint(*a.Seconds, " ", a.UntilAt[11:16], " ")
			}
		}
		return strings.ReplaceAll(list, "https://a.org/", "")
	}
	late := noon.Add(time.Hour).UnixNano()
	for _, test := range [][2]string{
		{names(w.stuck(classified, late)), "six x 12:05 "},
		{names(w.stuck(crawled, late)), "seven x 12:04 "},
		{names(w.stuck(routed, late)), "four y 12:11 "},
		{names(w.stuck(crawled, noon.UnixNano())), ""},
		{names(w.slowest(crawled, published, 0)), "two y 12:02 840 12:16 one x 12:00 540 12:09 "},
		{
			names(w.slowest(crawled, classified, noon.UnixNano()+1)),
			"two y 12:02 240 12:06 six x 12:02 180 12:05 one x 12:01 120 12:03 ",
		},
		{differArticles(w.slowest(crawled, published, 0), []httpArticle{{}}), " is 2, want 1 articles"},
	} {
		if test[0] != test[1] {
			t.Errorf("%q, want %q", test[0], test[1])
		}
	}
	right, wrong := w.stuck(classified, late), w.stuck(classified, late)
	if wrong[0].Events++; differArticles(wrong, right) == "" || differArticles(right, right) != "" {
		t.Error("a column of a stuck article is not looked at")
	}
}

// TestTotals: rows of a day, of a month and of the events not retired, counted
// by hand.
func TestTotals(t *testing.T) {
	w := tales(t, strings.TrimSpace(someTales)+"\n4320 six classified y {\"quality_score\":0.5}\n")
	days, months := w.totals("classified", byDay), w.totals("classified", byMonth)
	for key, want := range map[string]string{
		"2026-02-28|classified|y||":                 "3 1 0 0 2 160.5 70.5:1 90:1",
		"2026-02-28|classified|x|topic|a":           "1 0 0 0 1 50 50:1",
		"2026-02-28|classified|y|model_version|v2":  "2 1 0 0 1 90 90:1",
		"2026-03-03|classified|y|service|s":         "1 0 0 0 1 0.5 0.5:1",
		"2026-02-28|classified|y|model_version|v1":  "1 0 0 0 1 70.5 70.5:1",
		"2026-02-28|classified|x|model_version|v1":  "1 0 0 0 1 50 50:1",
		"2026-02-28|classified|x|model_version|old": "",
	} {
		got := ""
		if days[key] != nil {
			got = strings.Join(days[key].texts(), " ")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if len(months) != len(days) || months["2026-02-01|classified|y||"].events != 3 ||
		months["2026-03-01|classified|y||"].events != 1 {
		t.Errorf("months: %v", months)
	}
	row := append(days["2026-02-28|classified|y||"].texts(), "2")
	if text := days["2026-02-28|classified|y||"].differs(row); text != "" {
		t.Error(text)
	}
	for i := range row {
		wrong := slices.Clone(row)
		if wrong[i] += "1"; days["2026-02-28|classified|y||"].differs(wrong) == "" {
			t.Errorf("column %d is not looked at", i)
		}
	}
	if got := w.unretired()["classified||"]; got != "5|35|2834715|2|4|211|211|1|0|0" {
		t.Errorf("unretired: %s", got)
	}
}

// TestDiffer: numbers may be off by rounding, and all else by nothing.
func TestDiffer(t *testing.T) {
	type answer = map[string]any
	for name, test := range map[string]struct {
		got, want any
		same      bool
	}{
		"same":         {answer{"a": []any{1, "x", nil, true}}, answer{"a": []any{1, "x", nil, true}}, true},
		"rounding":     {answer{"a": 0.1 + 0.2}, answer{"a": 0.3}, true},
		"a number":     {answer{"a": 1}, answer{"a": 1.001}, false},
		"nothing":      {answer{"a": nil}, answer{"a": 0}, false},
		"something":    {answer{"a": 0}, answer{"a": nil}, false},
		"missing":      {answer{}, answer{"a": 1}, false},
		"too much":     {answer{"a": 1, "b": 0}, answer{"a": 1}, false},
		"a list":       {answer{"a": []any{1, 2}}, answer{"a": []any{1}}, false},
		"in a list":    {answer{"a": []any{1, 2}}, answer{"a": []any{1, 3}}, false},
		"another type": {answer{"a": []any{}}, answer{"a": answer{}}, false},
	} {
		if text := differ(test.got, test.want); (text == "") != test.same {
			t.Errorf("%s: %q", name, text)
		}
	}
}

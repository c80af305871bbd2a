package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// question is what the funnel and the statistics are asked of.
type question struct {
	params  string
	begins  func(now time.Time) time.Time
	firsts  bool // without reclassifications
	uniques string
}

// somewhere is a time zone whose days begin in the middle of an hour: that of
// Asia/Kathmandu, which knows no summer time.
var somewhere = time.FixedZone("", 5*60*60+45*60)

func startOfDay(now time.Time) time.Time {
	year, month, day := now.In(somewhere).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, somewhere)
}

// afterAll is a time, as a parameter, that nothing happens after.
func afterAll() string { return time.Now().UTC().Add(latest).Format(time.RFC3339) }

func (t truth) questions() []question {
	oldest := time.Unix(t.oldest, 0).UTC()
	custom := "from=" + oldest.Format(time.RFC3339) + "&to=" + afterAll()
	all := func(time.Time) time.Time { return oldest }
	day := func(now time.Time) time.Time { return now.Add(-24 * time.Hour) }
	return []question{
		{params: "period=24h", begins: day},
		{params: custom, begins: all},
		{params: "period=today&tz=Asia/Kathmandu", begins: startOfDay},
		{params: "period=24h&exclude_reclassifications=true", begins: day, firsts: true},
		{params: custom + "&exclude_reclassifications=true", begins: all, firsts: true},
		{params: custom, begins: all, uniques: "exact"},
		{params: custom, begins: all, uniques: "sketch"},
		{params: "period=24h", begins: day, uniques: "sketch"},
	}
}

// compareHTTP holds all that the query service answers to the recount.
func (v *verdict) compareHTTP(ctx context.Context, query string, t truth) error {
	if err := v.awaitAll(ctx, query, t); err != nil {
		return err
	}
	for _, source := range t.sources() {
		for _, q := range t.questions() {
			if err := v.compareAnswers(ctx, query, t, q, source); err != nil {
				return err
			}
		}
		if err := v.compareDrift(ctx, query, t, source); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context, string, truth) error{
		v.comparePages, v.compareJourneys,
		v.compareArticles, v.compareSources,
	} {
		if err := step(ctx, query, t); err != nil {
			return err
		}
	}
	return nil
}

// awaitLimit is how long a query service may take to show what is folded.
const awaitLimit = 30 * time.Second

// awaitAll waits until the query service has counted everything, before which
// its answers are of another moment.
func (v *verdict) awaitAll(ctx context.Context, query string, t truth) error {
	var f httpFunnel
	var err error
	if !within(awaitLimit, func() bool {
		f, err = get[httpFunnel](ctx, query, "/funnel?period=24h")
		return err != nil || f.Stream.Folded >= t.last
	}) {
		v.wrong("GET /funnel: folded_seq is %d, and the stream ends at %d", f.Stream.Folded, t.last)
	}
	return err
}

func (v *verdict) compareAnswers(ctx context.Context, query string, t truth, q question, source string) error {
	params := "?" + q.params + "&source=" + url.QueryEscape(source)
	asked := time.Now()
	if q.uniques == "" {
		s, err := get[httpStats](ctx, query, "/stats"+params)
		if err != nil {
			return err
		}
		v.compareStats("GET /stats"+params, s, t, q, source, asked)
	} else {
		params += "&uniques=" + q.uniques
	}
	f, err := get[httpFunnel](ctx, query, "/funnel"+params)
	if err != nil {
		return err
	}
	name := "GET /funnel" + params
	if !q.began(f.From, asked) {
		v.wrong("%s begins at %s", name, f.From)
	}
	events := t.in(scope{source, f.From.UnixNano(), q.firsts})
	if text := differFunnel(f, byStage(events), q.uniques == "sketch"); text != "" {
		v.wrong("%s: %s", name, text)
	}
	return nil
}

// began tells whether a window that was asked for from some moment until now
// may begin so. Windows of periods begin at whole milliseconds.
func (q question) began(from, asked time.Time) bool {
	return !from.Before(q.begins(asked).Add(-time.Millisecond)) && !from.After(q.begins(time.Now()))
}

// differFunnel says how a funnel differs from the tallies of its stages. Windows
// of a run are small enough for exact numbers of articles.
func differFunnel(f httpFunnel, tallies []*tally, sketch bool) string {
	if want := map[bool]string{false: "exact", true: "sketch"}[sketch]; f.Method != want {
		return fmt.Sprintf("unique_method is %s, want %s", f.Method, want)
	}
	if len(f.Stages) != len(tallies) {
		return fmt.Sprintf("the stages are %v", f.Stages)
	}
	for i, got := range f.Stages {
		n, articles := tallies[i], []int{len(tallies[i].articles)}
		if sketch {
			articles = n.estimates()
		}
		if got.Name != stageNames()[i] || got.Events != n.events || !slices.Contains(articles, got.Articles) {
			return fmt.Sprintf("%v, want %s with %d events of %v articles", got, stageNames()[i], n.events, articles)
		}
	}
	return ""
}

func (v *verdict) compareStats(name string, s httpStats, t truth, q question, source string, asked time.Time) {
	if !q.began(s.From, asked) || !s.DetailsFrom.Equal(s.From) {
		v.wrong("%s begins at %s, its details at %s", name, s.From, s.DetailsFrom)
	}
	if s.Method != "exact" || s.Sample != 1 || len(s.Cut) > 0 {
		v.wrong("%s: unique_method is %s, sample %d, cut %q", name, s.Method, s.Sample, s.Cut)
	}
	want := newStats(t.in(scope{source, s.From.UnixNano(), q.firsts}))
	if text := differ(s.stats, want); text != "" {
		v.wrong("%s: %s", name, text)
	}
}

func (v *verdict) compareDrift(ctx context.Context, query string, t truth, source string) error {
	d, err := get[httpDrift](ctx, query, "/stats/drift?source="+url.QueryEscape(source))
	if err != nil {
		return err
	}
	want := t.drift(source, d.GeneratedAt)
	if text := differ(d.drift, want); text != "" || d.Sample != 1 {
		v.wrong("GET /stats/drift of source %q, sample %d: %s", source, d.Sample, text)
	}
	return nil
}

// comparePages walks through all events, which have to be those of the recount,
// each once, the newest first.
func (v *verdict) comparePages(ctx context.Context, query string, t truth) error {
	wants := t.told
	for cursor, begun := "", false; cursor != "" || !begun; begun = true {
		page, err := get[httpEvents](ctx, query, "/events?limit=1000&cursor="+cursor)
		if err != nil {
			return err
		}
		for _, got := range page.Events {
			if len(wants) == 0 {
				v.wrong("GET /events: an event too many: %+v", got)
				return nil
			}
			want := wants[len(wants)-1].event()
			if wants = wants[:len(wants)-1]; got != want {
				v.wrong("GET /events: %+v, want %+v", got, want)
				return nil // what follows is out of place
			}
		}
		cursor = page.Next
	}
	if len(wants) > 0 {
		v.wrong("GET /events ends with %d events to come", len(wants))
	}
	return nil
}

// compareJourneys asks for the articles that have come furthest: of all, and of
// those with a canonical URL.
func (v *verdict) compareJourneys(ctx context.Context, query string, t truth) error {
	for _, events := range t.furthest() {
		hash := events[0].hash
		got, err := get[journey](ctx, query, "/articles/"+hash+"/journey")
		if err != nil {
			return err
		}
		if text := differ(got, newJourney(events)); text != "" {
			v.wrong("GET /articles/%s/journey: %s", hash, text)
		}
	}
	return nil
}

// compareArticles asks for all articles that are stuck after a stage since
// longer than a day, and for all by how long they took from one to another.
func (v *verdict) compareArticles(ctx context.Context, query string, t truth) error {
	oldest := time.Unix(t.oldest, 0).UTC()
	for params, want := range map[string][]httpArticle{
		"stuck_after=classified&older_than=24h&within=400d": t.stuck(classified, dayAgo()),
		"sort=slowest&from_stage=crawled&to_stage=classified&period=24h": t.slowest(crawled,
			classified, dayAgo()),
		"sort=slowest&from=" + oldest.Format(time.RFC3339) + "&to=" + afterAll(): t.slowest(crawled, published,
			oldest.UnixNano()),
	} {
		var got []httpArticle
		for cursor, begun := "", false; cursor != "" || !begun; begun = true {
			page, err := get[httpArticles](ctx, query, "/articles?limit=1000&"+params+"&cursor="+cursor)
			if err != nil {
				return err
			}
			got, cursor = append(got, page.Articles...), page.Next
		}
		if text := differArticles(got, want); text != "" {
			v.wrong("GET /articles?%s: %s", params, text)
		}
	}
	return nil
}

// compareSources asks for the sources of all events, most events first.
func (v *verdict) compareSources(ctx context.Context, query string, t truth) error {
	path := "/funnel/sources?limit=1000&from=" + time.Unix(t.oldest, 0).UTC().Format(time.RFC3339) + "&to=" + afterAll()
	got, err := get[httpSources](ctx, query, path)
	if err != nil {
		return err
	}
	if text := differ(got, t.bySize()); text != "" {
		v.wrong("GET %s: %s", path, text)
	}
	return nil
}

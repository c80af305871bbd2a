package pipeline

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

// taken are the events of a window up to a sequence.
func (r *rig) taken(v Stats, source string) (out []viewtest.Event) {
	to := v.To
	if v.Period != "custom" {
		to = to.Add(reads.WindowAhead)
	}
	for _, e := range r.writer.All {
		reclassified := e.Metadata["is_reclassification"] == true
		if e.Seq <= v.Stream.FoldedSeq && (source == "" || e.SourceName == source) &&
			!e.OccurredAt.Before(v.From) && e.OccurredAt.Before(to) &&
			(!v.SkipReclassified || !reclassified) {
			out = append(out, e)
		}
	}
	return out
}

// recountStats is the definition of statistics, for the default pipeline.
func recountStats(v Stats, events []viewtest.Event) Stats {
	v.Crawl = CrawlStats{BySource: map[string]uint64{}}
	v.Classification = ClassificationStats{ByVersion: map[string]uint64{}, ByTopic: map[string]uint64{}}
	v.Publishing = PublishingStats{ByChannel: map[string]uint64{}}
	count, unique := map[string]uint64{}, map[string]map[string]bool{}
	firsts, scores := map[string]map[string]time.Time{}, []float64{}
	for _, e := range events {
		count[e.Stage]++
		if unique[e.Stage] == nil {
			unique[e.Stage] = map[string]bool{}
		}
		unique[e.Stage][e.ArticleURL] = true
		if firsts[e.ArticleURL] == nil {
			firsts[e.ArticleURL] = map[string]time.Time{}
		}
		if at, seen := firsts[e.ArticleURL][e.Stage]; !seen || e.OccurredAt.Before(at) {
			firsts[e.ArticleURL][e.Stage] = e.OccurredAt
		}
		switch e.Stage {
		case "crawled":
			v.Crawl.BySource[e.SourceName]++
		case "classified":
			if version, ok := e.Metadata["model_version"].(string); ok {
				v.Classification.ByVersion[version]++
			}
			for _, topic := range e.Metadata["topics"].([]string) {
				v.Classification.ByTopic[topic]++
			}
			if score, ok := e.Metadata["quality_score"].(float64); ok {
				scores = append(scores, score)
			}
		case "published":
			v.Publishing.ByChannel[e.Metadata["channel"].(string)]++
		}
	}
	total := func(c Counts) (out Total) {
		out.Names = uint64(len(c))
		for _, n := range c {
			out.Events += n
		}
		return out
	}
	v.Totals = Totals{
		total(v.Crawl.BySource), total(v.Classification.ByVersion), total(v.Classification.ByTopic),
		total(v.Publishing.ByChannel),
	}
	u := func(stage string) uint64 { return uint64(len(unique[stage])) }
	v.Crawl.Total, v.Crawl.Unique, v.Crawl.Duplicates = count["crawled"], u("crawled"), count["crawled"]-u("crawled")
	c := &v.Classification
	c.Total, c.Unique, c.Reclassifications = count["classified"], u("classified"), count["classified"]-u("classified")
	c.AvgQuality, c.MedianQuality = middle(scores)
	v.Publishing.Routed, v.Publishing.Published = count["routed"], count["published"]
	if count["routed"] > count["published"] {
		v.Publishing.Failed = count["routed"] - count["published"]
	}
	v.Throughput = recountThroughput(firsts)
	return v
}

func recountThroughput(firsts map[string]map[string]time.Time) Throughput {
	t := Throughput{Stages: []StageDelay{}}
	stages := []string{"crawled", "indexed", "classified", "routed", "published"}
	legs := map[[2]int][]float64{}
	var classify, publish, whole []float64
	for _, at := range firsts {
		minutes := func(from, to string) float64 { return max(0, at[to].Sub(at[from]).Minutes()) }
		last := -1
		for i, stage := range stages {
			if _, reached := at[stage]; reached {
				if last >= 0 {
					legs[[2]int{last, i}] = append(legs[[2]int{last, i}], minutes(stages[last], stage))
				}
				last = i
			}
		}
		if at["crawled"].IsZero() || at["classified"].IsZero() || at["published"].IsZero() {
			continue
		}
		t.Articles++
		classify = append(classify, minutes("crawled", "classified"))
		publish = append(publish, minutes("classified", "published"))
		whole = append(whole, minutes("crawled", "published"))
	}
	t.AvgCrawlToClassify, t.MedianCrawlToClassify = middle(classify)
	t.AvgClassifyToPublish, t.MedianClassifyToPublish = middle(publish)
	t.AvgEndToEnd, t.MedianEndToEnd = middle(whole)
	for _, leg := range slices.SortedFunc(
		maps.Keys(legs), func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) },
	) {
		avg, median := middle(legs[leg])
		t.Stages = append(t.Stages, StageDelay{stages[leg[0]], stages[leg[1]], uint64(len(legs[leg])), *median, *avg})
	}
	return t
}

// middle returns mean and median, nil of nothing.
func middle(values []float64) (mean, median *float64) {
	n := len(values)
	if n == 0 {
		return nil, nil
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	sum /= float64(n)
	half := (values[(n-1)/2] + values[n/2]) / 2
	return &sum, &half
}

// rounded makes floats comparable: sums of them depend on their order.
func rounded(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	text, err = json.MarshalIndent(round(tree), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func round(v any) any {
	switch v := v.(type) {
	case float64:
		return math.Round(v*1e6) / 1e6
	case []any:
		for i := range v {
			v[i] = round(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = round(v[k])
		}
	}
	return v
}

func sameStats(t testing.TB, r *rig, query url.Values) Stats {
	t.Helper()
	var got Stats
	r.Must("/stats", query, &got)
	want := recountStats(got, r.taken(got, query.Get("source")))
	if g, w := rounded(t, got), rounded(t, want); g != w {
		t.Fatalf("%v:\n%s\nwant\n%s", query, g, w)
	}
	return got
}

// TestStats compares statistics with a recount, for windows of every kind.
func TestStats(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	r := newRig(t, options{})
	rng := rand.New(rand.NewPCG(1, 2))
	r.write(viewtest.Courses(rng, noon, 300)...)
	r.write(viewtest.Courses(rng, noon.Add(-3*time.Hour), 100)...)
	r.write(viewtest.Courses(rng, noon.Add(72*time.Hour), 30)...) // the broker's clock was fast
	from := noon.Add(-31 * time.Hour)
	for i, window := range []url.Values{
		{},
		viewtest.Values("period", "24h"), viewtest.Values("period", "30d"), viewtest.Values("tz", "Asia/Kathmandu"),
		viewtest.Values(
			"from", from.Format(time.RFC3339Nano), "to", from.Add(20*time.Hour+7*time.Second).Format(time.RFC3339Nano),
		),
		viewtest.Values(
			"from", noon.Add(time.Hour).Format(time.RFC3339), "to", noon.Add(2*time.Hour).Format(time.RFC3339),
		),
	} {
		for j, source := range []string{"", "source-1", "nobody"} {
			skip := (i+j)%2 > 0 // each window with and without, each source with and without
			query := viewtest.Values("source", source)
			if maps.Copy(query, window); skip {
				query.Set("exclude_reclassifications", "true")
			}
			got := sameStats(t, r, query)
			var f Funnel
			r.Must("/funnel", query, &f)
			if !sameCounts(got, newStats(f, r.svc.roles)) || got.From != f.From || got.To != f.To ||
				got.SkipReclassified != skip || f.SkipReclassified != skip {
				t.Fatalf("%v: %+v, but the funnel is %+v", query, got, f)
			}
		}
	}
}

// sameCounts tells whether what statistics share with a funnel is the same.
func sameCounts(a, b Stats) bool {
	return a.Crawl.Total == b.Crawl.Total && a.Crawl.Unique == b.Crawl.Unique &&
		a.Classification.Total == b.Classification.Total && a.Classification.Unique == b.Classification.Unique &&
		a.Publishing.Routed == b.Publishing.Routed && a.Publishing.Published == b.Publishing.Published
}

// TestStatsFollowTheFunnel: while events come in, statistics and a funnel of
// one sequence have the same numbers, even where the tables are ahead.
func TestStatsFollowTheFunnel(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	for name, cfg := range map[string]Config{"exact": {}, "sketch": {ExactEvents: 50}} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			r := newRig(t, options{Config: cfg})
			events := viewtest.Courses(rng, noon, 120)
			pairs := 0
			for len(events) > 0 {
				n := min(len(events), 120)
				d := r.writer.Write(events[:n]...) // durable, but not announced yet
				events = events[n:]
				for _, announced := range []bool{false, true} {
					if announced {
						viewtest.Announce(t, r.nc, d)
						r.until(func() bool { return r.svc.mirror.Position().Folded >= d.To })
					}
					if r.svc.mirror.Position().Folded == 0 {
						continue // it has loaded an empty table and knows of no sequence
					}
					var f Funnel
					var v Stats
					// The mirror may give articles up in between.
					for f.UniqueMethod == "" || f.UniqueMethod != v.UniqueMethod {
						r.Must("/funnel", viewtest.Values("period", "30d"), &f)
						r.Must("/stats", viewtest.Values("period", "30d"), &v)
					}
					if f.Stream.FoldedSeq != v.Stream.FoldedSeq || !sameCounts(v, newStats(f, r.svc.roles)) {
						t.Fatalf("announced %t: funnel %+v, statistics %+v", announced, f, v)
					}
					pairs++
					if name == "exact" {
						if !announced { // the table is ahead of the funnel
							sameStats(t, r, viewtest.Values("period", "30d", "exclude_reclassifications", "true"))
						}
						continue
					}
					if total := v.Crawl.Total + v.Classification.Total; total > 50 && v.Sample < 2 {
						t.Errorf("of %d events one article in %d is looked at", total, v.Sample)
					}
				}
			}
			if pairs < 6 {
				t.Errorf("only %d pairs were compared", pairs)
			}
		})
	}
}

// TestStatsRecount: a mirror that does not agree with the table at its
// sequence does not keep statistics from being of one moment.
func TestStatsRecount(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	rng := rand.New(rand.NewPCG(5, 6))
	r.write(viewtest.Courses(rng, noon, 30)...)
	d := r.writer.Write(viewtest.Courses(rng, noon.Add(-time.Second), 20)...)
	d.Entries = d.Entries[:len(d.Entries)/2] // half of it never arrives
	viewtest.Announce(t, r.nc, d)
	r.until(func() bool { return r.svc.mirror.Position().Folded >= d.To })
	sameStats(t, r, viewtest.Values("period", "7d"))
}

// TestSpecificationOfStats: the answer has the fields of the specification's
// example, and its arithmetic.
func TestSpecificationOfStats(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	at := noon.Add(-2 * time.Hour)
	var events []event.Event
	one := func(url, stage string, after time.Duration, metadata map[string]any) {
		events = append(events, event.Event{
			ArticleURL: "https://example.com/" + url, SourceName: "example_com", Stage: stage,
			OccurredAt: at.Add(after), ServiceName: "test", Metadata: metadata,
		})
	}
	minutes := func(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
	for i, delay := range []float64{9.8, 11.2, 16.2} { // median 11.2, mean 12.4
		publish := []float64{0.6, 0.4, 1.4}[i] // median 0.6, mean 0.8
		url := fmt.Sprint("article-", i)
		channel := map[string]any{"channel": []string{"articles:news", "articles:crime:violent", "articles:news"}[i]}
		one(url, "crawled", 0, nil)
		one(
			url, "classified", minutes(delay),
			map[string]any{
				"quality_score": []int{78, 75, 63}[i], "topics": []string{"crime", "news"}[:1+i%2],
				"model_version": "v2.1",
			},
		)
		one(url, "routed", minutes(delay), channel)
		one(url, "published", minutes(delay+publish), channel)
	}
	one("article-0", "crawled", minutes(30), nil)
	one(
		"article-1", "classified", minutes(60),
		map[string]any{
			"quality_score": 72, "topics": []string{"mining"}, "model_version": "v2.0", "is_reclassification": true,
		},
	)
	r.write(events...)

	var got map[string]any
	r.Must("/stats", nil, &got)
	want := map[string]any{
		"period": "today", "from": "2026-03-17T00:00:00Z", "to": "2026-03-17T12:07:13.25Z",
		"generated_at": "2026-03-17T12:07:13.25Z",
		"crawl": map[string]any{
			"total_crawled": 4.0, "unique_urls": 3.0, "duplicates": 1.0,
			"by_source": map[string]any{"example_com": 4.0},
		},
		"classification": map[string]any{
			"total_classified": 4.0, "unique_articles": 3.0, "reclassifications": 1.0, "avg_quality_score": 72.0,
			"median_quality_score": 73.5,
			"by_model_version":     map[string]any{"v2.1": 3.0, "v2.0": 1.0},
			"by_topic":             map[string]any{"crime": 3.0, "news": 1.0, "mining": 1.0},
		},
		"publishing": map[string]any{
			"total_routed": 3.0, "total_published": 3.0, "failed_publishes": 0.0,
			"by_channel": map[string]any{"articles:crime:violent": 1.0, "articles:news": 2.0},
		},
		"throughput": map[string]any{
			"median_crawl_to_classify_mins": 11.2, "avg_crawl_to_classify_mins": 12.4,
			"median_classify_to_publish_mins": 0.6,
			"avg_classify_to_publish_mins":    0.8, "median_end_to_end_mins": 11.6, "avg_end_to_end_mins": 13.2,
		},
	}
	if !contains(round(got), want) {
		t.Errorf("%s\nwant\n%s", rounded(t, got), rounded(t, want))
	}
}

// contains tells whether an answer has everything of another.
func contains(got, want any) bool {
	w, is := want.(map[string]any)
	if !is {
		return reflect.DeepEqual(got, want)
	}
	g, is := got.(map[string]any)
	if !is {
		return false
	}
	for k := range w {
		if !contains(g[k], w[k]) {
			return false
		}
	}
	return true
}

func TestRoles(t *testing.T) {
	for list, want := range map[string]store.Roles{
		event.DefaultStages: {
			Crawl: "crawled", Classify: "classified", Route: "routed", Publish: "published",
		},
		"submitted,checked,approved,paid":         {Crawl: "submitted", Publish: "paid"},
		"fetched,classified,published":            {Crawl: "fetched", Classify: "classified", Publish: "published"},
		"crawled,classified":                      {Crawl: "crawled", Classify: "classified"},
		"classified,routed":                       {Classify: "classified", Route: "routed"},
		"alone":                                   {Crawl: "alone"},
		"discovered,crawled,published,syndicated": {Crawl: "crawled", Publish: "published"},
	} {
		stages, err := event.ParseStages(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := rolesOf(stages); got != want {
			t.Errorf("%s: %+v, want %+v", list, got, want)
		}
	}
}

// TestStatsOfRetired: where single events are gone, the totals are those of
// the funnel, and the answer says from when on it has more.
func TestStatsOfRetired(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(viewtest.Courses(rand.New(rand.NewPCG(7, 8)), noon, 40)...)
	r.write(viewtest.Courses(rand.New(rand.NewPCG(9, 10)), noon.AddDate(0, -2, 0), 40)...)
	conn := r.svc.deps.ClickHouse
	for _, statement := range []string{
		"INSERT INTO retired VALUES (202601, 1000000, 1, now())", "ALTER TABLE " + engine.Rows("events") + " DROP PARTITION 202601",
	} {
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	query := viewtest.Values(
		"from", noon.AddDate(0, -3, 0).Format(time.RFC3339), "to", noon.Add(time.Hour).Format(time.RFC3339),
	)
	var f Funnel
	var got Stats
	r.Must("/funnel", query, &f)
	r.Must("/stats", query, &got)
	if !sameCounts(got, newStats(f, r.svc.roles)) || got.UniqueMethod != "sketch" ||
		!got.DetailsFrom.Equal(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, the funnel is %+v", got, f)
	}
	if late := r.recount("", got.DetailsFrom, noon.Add(time.Hour))[0].Count; got.Crawl.BySource["source-0"] == 0 ||
		got.Crawl.Total <= late {
		t.Errorf("%+v, %d of it late", got.Crawl, late)
	}
	query.Set("exclude_reclassifications", "true")
	var p httpapi.Problem
	if status := r.Get("/stats", query, &p); status != http.StatusBadRequest || p.Errors[0].Code != "events_retired" {
		t.Errorf("%d %+v", status, p)
	}
}

// news reads events of a real crawl history.
func news(t *testing.T) (out []event.Event) {
	t.Helper()
	f, err := os.Open("testdata/news.ndjson.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(lines); dec.More(); {
		var e event.Event
		if err := dec.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if list, ok := e.Metadata["topics"].([]any); ok {
			topics := make([]string, len(list))
			for i, topic := range list {
				topics[i] = topic.(string)
			}
			e.Metadata["topics"] = topics
		}
		out = append(out, e)
	}
	return out
}

// TestStatsOfNews compares statistics of a real crawl history with a recount,
// as a whole and in parts.
func TestStatsOfNews(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	events := news(t)
	r.write(events...)
	first, last := events[0].OccurredAt, events[len(events)-1].OccurredAt
	between := func(a, b time.Time) url.Values {
		return viewtest.Values("from", a.Format(time.RFC3339Nano), "to", b.Format(time.RFC3339Nano))
	}
	whole := sameStats(t, r, between(first, last.Add(1)))
	if whole.Crawl.Total != 260 || whole.Crawl.Duplicates == 0 || whole.Publishing.Failed == 0 ||
		len(whole.Classification.ByVersion) != 2 {
		t.Errorf("%+v", whole)
	}
	middle := first.Add(last.Sub(first) / 2)
	sameStats(t, r, between(first, middle))
	part := between(middle, last)
	part.Set("source", events[0].SourceName)
	sameStats(t, r, part)
}

package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

func hashOf(link string) string {
	sum := sha256.Sum256([]byte(link))
	return hex.EncodeToString(sum[:])
}

// articlePages follows the cursors from the first page to the last.
func (r *rig) articlePages(query url.Values) (out []Article) {
	r.T.Helper()
	for {
		var page ArticlesPage
		r.Must("/articles", query, &page)
		out = append(out, page.Articles...)
		if page.NextCursor == "" {
			return out
		}
		query.Set("cursor", page.NextCursor)
	}
}

// way is what a plain recount knows of an article.
type way struct {
	url, source string
	first       map[string]time.Time
	last        time.Time
	events      uint64
}

func (r *rig) ways() map[string]*way {
	ways := map[string]*way{}
	for _, e := range r.All {
		w := ways[e.ArticleURL]
		if w == nil {
			w = &way{url: e.ArticleURL, source: e.SourceName, first: map[string]time.Time{}}
			ways[e.ArticleURL] = w
		}
		if at, seen := w.first[e.Stage]; !seen || e.OccurredAt.Before(at) {
			w.first[e.Stage] = e.OccurredAt
		}
		if e.OccurredAt.After(w.last) {
			w.last = e.OccurredAt
		}
		w.events++
	}
	return ways
}

func (r *rig) stuckArticles(stage, source string, older, within time.Duration) (out []Article) {
	stages := r.Stages.Names()
	later := stages[slices.Index(stages, stage)+1:]
	for _, w := range r.ways() {
		at, reached := w.first[stage]
		gone := slices.ContainsFunc(later, func(s string) bool { return !w.first[s].IsZero() })
		if !reached || gone || (source != "" && w.source != source) || at.After(noon.Add(-older)) ||
			at.Before(noon.Add(-within)) {
			continue
		}
		out = append(out, Article{
			URLHash: hashOf(w.url), ArticleURL: w.url, SourceName: w.source, Stage: stage, ReachedAt: at,
			LastAt: &w.last,
			Events: w.events, Seconds: noon.Sub(at).Seconds(),
		})
	}
	slices.SortFunc(out, func(a, b Article) int {
		if c := a.ReachedAt.Compare(b.ReachedAt); c != 0 {
			return c
		}
		return strings.Compare(a.URLHash, b.URLHash)
	})
	return out
}

// TestStuck compares stuck articles with a recount, page by page. One that has
// long been through, and is only seen again, is not stuck.
func TestStuck(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	r := serve(t)
	events := viewtest.Courses(rand.New(rand.NewPCG(1, 2)), noon, 120)
	for _, stage := range []string{"crawled", "indexed", "classified", "routed", "published"} {
		events = append(events, event.Event{
			ArticleURL: "https://example.com/old", SourceName: "source-1", Stage: stage,
			OccurredAt: noon.Add(-20 * 24 * time.Hour), ServiceName: "test",
		})
	}
	events = append(events, event.Event{
		ArticleURL: "https://example.com/old", SourceName: "source-1", Stage: "crawled",
		OccurredAt: noon.Add(-3 * time.Hour), ServiceName: "test",
	})
	for i := range 4 { // at one time
		events = append(events, event.Event{
			ArticleURL: fmt.Sprint("https://example.com/same-", i), SourceName: "source-1", Stage: "classified",
			OccurredAt: noon.Add(-5 * time.Hour), ServiceName: "test",
		})
	}
	r.Write(events...)
	for _, tc := range []struct {
		query         url.Values
		older, within time.Duration
	}{
		{
			viewtest.Values("stuck_after", "classified", "older_than", "1h", "limit", "7"), time.Hour,
			7 * 24 * time.Hour,
		},
		{viewtest.Values("stuck_after", "classified"), time.Hour, 7 * 24 * time.Hour},
		{
			viewtest.Values("stuck_after", "classified", "source", "source-1", "limit", "1"), time.Hour,
			7 * 24 * time.Hour,
		},
		{
			viewtest.Values("stuck_after", "crawled", "older_than", "90m", "within", "1d", "limit", "2"),
			90 * time.Minute, 24 * time.Hour,
		},
		{
			viewtest.Values("stuck_after", "routed", "older_than", "1s", "within", "10h", "limit", "3"), time.Second,
			10 * time.Hour,
		},
	} {
		got, want := r.articlePages(tc.query), r.stuckArticles(
			tc.query.Get("stuck_after"), tc.query.Get("source"), tc.older, tc.within,
		)
		if len(want) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, want %+v", tc.query, got, want)
		}
	}
}

// TestSlowest compares slow articles with a recount, page by page.
func TestSlowest(t *testing.T) {
	t.Parallel()
	r := serve(t)
	r.Write(viewtest.Courses(rand.New(rand.NewPCG(3, 4)), noon, 120)...)
	for _, tc := range []struct{ from, to, source string }{
		{"", "", ""}, {"classified", "routed", ""}, {"indexed", "published", "source-1"},
	} {
		got := r.articlePages(
			viewtest.Values(
				"sort", "slowest", "period", "7d", "from_stage", tc.from, "to_stage", tc.to, "source", tc.source,
				"limit", "9",
			),
		)
		from, to := tc.from, tc.to
		if from == "" {
			from, to = "crawled", "published"
		}
		var want []Article
		for _, w := range r.ways() {
			begun, a := w.first[from]
			ended, b := w.first[to]
			if !a || !b || (tc.source != "" && w.source != tc.source) {
				continue
			}
			want = append(want, Article{
				URLHash: hashOf(w.url), ArticleURL: w.url, SourceName: w.source, Stage: from, ReachedAt: begun,
				Until: to, UntilAt: &ended,
				Seconds: max(0, ended.Sub(begun)).Seconds(),
			})
		}
		slices.SortFunc(want, func(a, b Article) int {
			if a.Seconds != b.Seconds {
				return int(min(1, max(-1, (b.Seconds-a.Seconds)*1e9)))
			}
			return strings.Compare(a.URLHash, b.URLHash)
		})
		if len(want) < 10 || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, want %+v", tc, got, want)
		}
	}
}

func TestBadArticles(t *testing.T) {
	t.Parallel()
	r := serve(t)
	stuck := stuckCursor.Encode(store.ArticleCursor{At: 1, ID: 7})
	for _, tc := range []struct{ query, field string }{
		{"", "stuck_after"},
		{"stuck_after=published", "stuck_after"},
		{"stuck_after=unheard-of", "stuck_after"},
		{"stuck_after=crawled&sort=slowest", "sort"},
		{"stuck_after=crawled&older_than=soon", "older_than"},
		{"stuck_after=crawled&older_than=-1h", "older_than"},
		{"stuck_after=crawled&older_than=99999d", "older_than"},
		{"stuck_after=crawled&older_than=d", "older_than"},
		{"stuck_after=crawled&older_than=2d&within=1d", "within"},
		{"stuck_after=crawled&cursor=nonsense", "cursor"},
		{"sort=slowest&cursor=" + stuck, "cursor"},
		{"sort=slowest&from_stage=routed&to_stage=routed", "to_stage"},
		{"sort=slowest&from_stage=x", "from_stage"},
		{"sort=slowest&to_stage=x", "to_stage"},
		{"sort=slowest&period=1y", "period"},
		{"sort=fastest", "sort"},
		{"stuck_after=crawled&source=%01", "source"},
		{"stuck_after=crawled&limit=0", "limit"},
	} {
		var p httpapi.Problem
		query, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		if status := r.Get("/articles", query, &p); status != http.StatusBadRequest || len(p.Errors) != 1 ||
			p.Errors[0].Field != tc.field || p.Errors[0].Rule == "" {
			t.Errorf("%s: %d %+v", tc.query, status, p)
		}
	}
}

// TestTrace: a trace, of the event or in its metadata, is carried, can be
// searched for, and is part of the journeys of its articles, as the canonical URL
// is.
func TestTrace(t *testing.T) {
	t.Parallel()
	r := serve(t)
	const canonical = "https://example.com/t"
	one := func(link, stage, trace string, after time.Duration) event.Event {
		e := event.Event{
			ArticleURL: link, SourceName: "s", Stage: stage, OccurredAt: noon.Add(after - time.Hour),
			ServiceName: "test", TraceID: trace,
		}
		if link != canonical {
			e.CanonicalURL = canonical
		}
		return e
	}
	inMetadata := one(canonical+"?utm=1", "indexed", "", time.Second)
	inMetadata.Metadata = map[string]any{"trace_id": "trace-1"}
	r.Write(
		one(canonical, "crawled", "", 0), inMetadata,
		one(canonical, "classified", "trace-2", 3*time.Second), one(canonical, "classified", "trace-1", 4*time.Second),
	)
	if got, want := r.pages(viewtest.Values("trace_id", "trace-1")), []uint64{4, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("events of the trace: %v, want %v", got, want)
	}
	var j Journey
	r.Must("/articles/"+hashOf(canonical)+"/journey", nil, &j)
	if j.CanonicalURL != canonical || j.ArticleURL != canonical ||
		!reflect.DeepEqual(j.TraceIDs, []string{"trace-1", "trace-2"}) || len(j.Events) != 4 || *j.Elapsed != 3 {
		t.Errorf("%+v", j)
	}
}

// TestLongJourney: an article with very many events shows the newest, and all
// of its stages.
func TestLongJourney(t *testing.T) {
	t.Parallel()
	r := serve(t)
	var events []event.Event
	one := func(stage string, after time.Duration) {
		events = append(events, event.Event{
			ArticleURL: "https://example.com/j", SourceName: "s", Stage: stage,
			OccurredAt: noon.Add(after - time.Hour), ServiceName: "test",
		})
	}
	one("crawled", 0)
	for i := range maxJourneyEvents + 200 {
		one("classified", time.Duration(i+1)*time.Second)
	}
	r.Write(events...)
	var j Journey
	r.Must("/articles/"+hashOf("https://example.com/j")+"/journey", nil, &j)
	if len(j.Events) != maxJourneyEvents || j.Events[0].Seq != 202 || j.Events[maxJourneyEvents-1].Seq != 1201 {
		t.Errorf("%d events, %d to %d", len(j.Events), j.Events[0].Seq, j.Events[len(j.Events)-1].Seq)
	}
	if c := j.Stages[0]; c.FirstAt == nil || c.Events != 1 || j.Stages[2].Events != maxJourneyEvents+200 ||
		*j.Stages[2].Latency != 1 {
		t.Errorf("%+v", j.Stages)
	}
}

func FuzzArticleCursor(f *testing.F) {
	f.Add(stuckCursor.Encode(store.ArticleCursor{At: noon.UnixNano(), ID: 1 << 63}))
	f.Add(slowestCursor.Encode(store.ArticleCursor{At: 7}))
	f.Add("' OR 1=1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []reads.Cursor[store.ArticleCursor]{stuckCursor, slowestCursor} {
			p, ok := c.Decode(text)
			if ok && (c.Encode(p) != text || p.At < 0) {
				t.Fatalf("%q decodes to %+v", text, p)
			}
		}
	})
}

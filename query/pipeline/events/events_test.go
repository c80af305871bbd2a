package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
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
	"github.com/millrace-io/millrace/schemas/event"
)

// newestFirst are the sequences of the events that a filter keeps, in the
// order of pages.
func (r *rig) newestFirst(keep func(event.Event) bool) []uint64 {
	all := slices.Clone(r.All)
	slices.SortFunc(all, func(a, b viewtest.Event) int {
		if c := b.OccurredAt.Compare(a.OccurredAt); c != 0 {
			return c
		}
		return int(b.Seq) - int(a.Seq)
	})
	var seqs []uint64
	for _, e := range all {
		if keep(e.Event) {
			seqs = append(seqs, e.Seq)
		}
	}
	return seqs
}

// pages follows the cursors from the first page to the last.
func (r *rig) pages(query url.Values) (seqs []uint64) {
	r.T.Helper()
	for {
		var page EventsPage
		r.Must("/events", query, &page)
		for _, e := range page.Events {
			seqs = append(seqs, e.Seq)
		}
		if page.NextCursor == "" {
			return seqs
		}
		query.Set("cursor", page.NextCursor)
	}
}

// TestEventPages pages through events of which many happened at one time.
func TestEventPages(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	events := viewtest.Draw(rng, noon, 50)
	for i := range events {
		events[i].OccurredAt = noon.Add(-time.Duration(rng.IntN(7)) * time.Minute)
	}
	const hostile = `it's "a" \' source'); DROP TABLE events; -- @from ?`
	events[17].SourceName, events[18].ServiceName = hostile, hostile
	r := serve(t)
	r.Write(events...)
	link := events[3].ArticleURL
	hash := sha256.Sum256([]byte(link))
	at := noon.Add(-3 * time.Minute)
	for _, tc := range []struct {
		query url.Values
		keep  func(event.Event) bool
	}{
		{viewtest.Values("limit", "1"), func(event.Event) bool { return true }},
		{viewtest.Values("limit", "7"), func(event.Event) bool { return true }},
		{viewtest.Values("limit", "50"), func(event.Event) bool { return true }},
		{viewtest.Values(), func(event.Event) bool { return true }},
		{viewtest.Values("limit", "3", "stage", "indexed"), func(e event.Event) bool { return e.Stage == "indexed" }},
		{
			viewtest.Values("limit", "3", "source", "source-1"),
			func(e event.Event) bool { return e.SourceName == "source-1" },
		},
		{viewtest.Values("source", hostile), func(e event.Event) bool { return e.SourceName == hostile }},
		{viewtest.Values("service", hostile), func(e event.Event) bool { return e.ServiceName == hostile }},
		{viewtest.Values("limit", "1", "article_url", link), func(e event.Event) bool { return e.ArticleURL == link }},
		{
			viewtest.Values("limit", "1", "url_hash", fmt.Sprintf("%X", hash)),
			func(e event.Event) bool { return e.ArticleURL == link },
		},
		{
			viewtest.Values("limit", "4", "from", at.Format(time.RFC3339Nano)),
			func(e event.Event) bool { return !e.OccurredAt.Before(at) },
		},
		{
			viewtest.Values("limit", "4", "to", at.Format(time.RFC3339Nano)),
			func(e event.Event) bool { return e.OccurredAt.Before(at) },
		},
	} {
		if got, want := r.pages(tc.query), r.newestFirst(tc.keep); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v, want %v", tc.query, got, want)
		}
	}
}

// TestFullPages: events with much metadata come in pages of a bounded size, each
// once, and a journey has the newest of them, with stages of all.
func TestFullPages(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	r := serve(t)
	const n, full = 290, 8 << 20
	var events []event.Event
	for i := range n {
		events = append(events, event.Event{
			ArticleURL: "https://example.com/long", SourceName: "s", Stage: []string{"crawled", "indexed"}[min(1, i)],
			ServiceName: "test",
			OccurredAt:  noon.Add(time.Duration(i-n) * time.Second),
			Metadata:    map[string]any{"text": strings.Repeat("x", 60<<10), "i": i},
		})
	}
	for part := range slices.Chunk(events, 50) {
		r.Write(part...)
	}
	fits := func(events []StoredEvent) bool {
		size := 0
		for _, e := range events {
			size += len(e.Metadata)
		}
		last := len(events[0].Metadata)
		return size >= full && size-last < full
	}
	query, next := viewtest.Values("limit", "1000"), uint64(n)
	for {
		var page EventsPage
		r.Must("/events", query, &page)
		for _, e := range page.Events {
			if e.Seq != next {
				t.Fatalf("event %d, want %d", e.Seq, next)
			}
			next--
		}
		if page.NextCursor == "" {
			break
		}
		if slices.Reverse(page.Events); !fits(page.Events) {
			t.Errorf("a page of %d events", len(page.Events))
		}
		query.Set("cursor", page.NextCursor)
	}
	if next != 0 {
		t.Errorf("%d events are left out", next)
	}
	sum := sha256.Sum256([]byte("https://example.com/long"))
	var j Journey
	r.Must("/articles/"+hex.EncodeToString(sum[:])+"/journey", nil, &j)
	if !fits(j.Events) || j.Events[len(j.Events)-1].Seq != n || j.Stages[0].Events != 1 || j.Stages[1].Events != n-1 {
		t.Errorf("a journey of %d events, %+v", len(j.Events), j.Stages)
	}
	for i, e := range j.Events[1:] {
		if e.Seq != j.Events[i].Seq+1 {
			t.Errorf("after event %d comes %d", j.Events[i].Seq, e.Seq)
		}
	}
}

func TestEventFields(t *testing.T) {
	t.Parallel()
	r := serve(t)
	at := time.Date(2026, 3, 17, 11, 0, 0, 120_000_000, time.UTC)
	full := event.Event{
		ArticleURL: "https://www.Example.com/a?b=1", CanonicalURL: "https://example.com/a", SourceName: "a b",
		Stage:      "classified",
		OccurredAt: at, ServiceName: "classifier", TraceID: "trace", MetadataSchemaVersion: 3,
		Metadata: map[string]any{
			"quality_score": 78.5, "topics": []any{"crime"}, "model_version": "v2.1", "is_reclassification": true,
			"more": map[string]any{"ü": nil},
		},
	}
	bare := event.Event{
		ArticleURL: "https://example.com/a", SourceName: "a", Stage: "crawled", OccurredAt: at.Add(-time.Hour),
		ServiceName: "crawler", IdempotencyKey: "mine",
	}
	r.Write(full, bare)
	var page EventsPage
	r.Must("/events", nil, &page)
	if len(page.Events) != 2 {
		t.Fatalf("%+v", page)
	}
	sum := sha256.Sum256([]byte("https://example.com/a"))
	hash := hex.EncodeToString(sum[:])
	var metadata map[string]any
	if err := json.Unmarshal(page.Events[0].Metadata, &metadata); err != nil ||
		!reflect.DeepEqual(metadata, full.Metadata) {
		t.Errorf("metadata %s, %v", page.Events[0].Metadata, err)
	}
	got := page.Events[0]
	got.Metadata = nil
	want := StoredEvent{
		Seq: 1, ArticleURL: full.ArticleURL, CanonicalURL: full.CanonicalURL, URLHash: hash, Domain: "example.com",
		SourceName: "a b",
		Stage:      "classified", OccurredAt: at, ReceivedAt: at.Add(1500),
		ServiceName: "classifier", TraceID: "trace",
		MetadataSchemaVersion: 3,
		IdempotencyKey:        "classifier:classified:" + hash[:8] + ":v2.1:2026-03-17T11:00:00.12Z",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if e := page.Events[1]; e.IdempotencyKey != "mine" || string(e.Metadata) != "null" ||
		e.MetadataSchemaVersion != 1 {
		t.Errorf("%+v", e)
	}
}

func TestJourney(t *testing.T) {
	t.Parallel()
	r := serve(t)
	one := func(stage string, after time.Duration) event.Event {
		return event.Event{
			ArticleURL: "https://example.com/j", SourceName: "s", Stage: stage,
			OccurredAt: noon.Add(after - time.Hour), ServiceName: "test",
		}
	}
	r.Write(
		one("published", 90*time.Second), one("crawled", 0), one("classified", 75500*time.Millisecond),
		one("indexed", -2*time.Second), one("classified", 80*time.Second), one("crawled", time.Minute),
		event.Event{
			ArticleURL: "https://example.com/other", SourceName: "s", Stage: "routed", OccurredAt: noon,
			ServiceName: "test",
		},
	)
	sum := sha256.Sum256([]byte("https://example.com/j"))
	var j Journey
	r.Must("/articles/"+hex.EncodeToString(sum[:])+"/journey", nil, &j)
	if j.ArticleURL != "https://example.com/j" || j.Domain != "example.com" || j.SourceName != "s" {
		t.Errorf("%+v", j)
	}
	var order []uint64
	for _, e := range j.Events {
		order = append(order, e.Seq)
	}
	if !reflect.DeepEqual(order, []uint64{4, 2, 6, 3, 5, 1}) {
		t.Errorf("events %v", order)
	}
	seconds := func(s float64) *float64 { return &s }
	for i, want := range []struct {
		events  uint64
		latency *float64
	}{{2, nil}, {1, seconds(0)}, {2, seconds(77.5)}, {0, nil}, {1, seconds(14.5)}} {
		got := j.Stages[i]
		if got.Events != want.events || (got.FirstAt == nil) != (want.events == 0) ||
			!reflect.DeepEqual(got.Latency, want.latency) {
			t.Errorf("stage %s: %+v", got.Name, got)
		}
	}
	var p httpapi.Problem
	if status := r.Get("/articles/"+fmt.Sprintf("%064x", 7)+"/journey", nil, &p); status != http.StatusNotFound ||
		p.Status != status {
		t.Errorf("an article that is not known: %d %+v", status, p)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(eventCursor.Encode(store.EventCursor{At: noon.UnixNano(), Seq: 7}))
	f.Add(eventCursor.Encode(store.EventCursor{At: math.MaxInt64, Seq: math.MaxUint64}))
	f.Add("AQAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("' OR 1=1")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := eventCursor.Decode(text)
		if ok && (eventCursor.Encode(p) != text || p.At < 0 || p.Seq == 0) {
			t.Fatalf("%q decodes to %+v", text, p)
		}
	})
}

func TestCursor(t *testing.T) {
	want := store.EventCursor{At: noon.UnixNano(), Seq: 91220}
	text := eventCursor.Encode(want)
	if got, ok := eventCursor.Decode(text); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for i := range text {
		mistyped := []byte(text)
		mistyped[i] ^= 1
		if p, ok := eventCursor.Decode(string(mistyped)); ok && string(mistyped) != text {
			t.Errorf("%s decodes to %+v", mistyped, p)
		}
	}
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

func open(t *testing.T, timeout time.Duration) (*store.Store, *viewtest.Writer) {
	t.Helper()
	opts := engine.Database(t)
	s, err := store.New(viewtest.Open(t, opts), timeout)
	if err != nil {
		t.Fatal(err)
	}
	return s, viewtest.NewWriter(t, opts)
}

var epoch = time.Date(2026, 3, 1, 9, 7, 30, 123456789, time.UTC)

// hostile is a source name that no quoting may fall for.
const hostile = `it's "a" \' source'); DROP TABLE events; -- @from ? {x:String}`

func events(n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		source := []string{"alpha", hostile, "gamma"}[i%3]
		out[i] = event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/%d", i/2), SourceName: source,
			Stage:      []string{"crawled", "indexed"}[i%2],
			OccurredAt: epoch.Add(time.Duration(i) * 97 * time.Second), ServiceName: "test",
		}
	}
	return out
}

func TestFunnelRows(t *testing.T) {
	t.Parallel()
	s, w := open(t, 5*time.Minute)
	w.Write(events(100)...)
	w.Write(events(400)[100:]...)
	for _, source := range []string{funnel.AllSources, "alpha", hostile, "nobody"} {
		counts, last := map[string]uint64{}, map[string]int{}
		err := s.QuarterCounts(t.Context(), source, epoch.Add(-time.Hour), func(c mirror.Count) error {
			counts[c.Stage] += c.Events
			if c.Seq != 100 && c.Seq != 400 {
				t.Errorf("row folded up to %d", c.Seq)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := func(stage string, bucket uint32, articles []uint64) error {
			last[stage] += len(articles)
			if bucket%900 != 0 {
				t.Errorf("bucket %d", bucket)
			}
			return nil
		}
		if err := s.LastSeen(t.Context(), source, epoch.Add(-time.Hour), epoch.Add(24*time.Hour), []uint64{400}, seen); err != nil {
			t.Fatal(err)
		}
		exact, err := s.Exact(t.Context(), scope(source, epoch, epoch.Add(24*time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		sketch, err := s.Sketch(t.Context(), scope(source, epoch, epoch.Add(24*time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		want := recount(w, source, epoch, epoch.Add(24*time.Hour))
		if len(exact) != len(want) || len(sketch) != len(want) {
			t.Errorf("%q: stages %v, %v, want %v", source, exact, sketch, want)
		}
		for name, v := range want {
			off := math.Abs(float64(sketch[name].Articles) - float64(v.Articles))
			if counts[name] != v.Events || last[name] != int(v.Articles) || exact[name] != v ||
				sketch[name].Events != v.Events || off > 3*funnel.StandardError*float64(v.Articles) {
				t.Errorf(
					"%q %s: %d events, %d articles, exact %v, sketch %v, want %v", source, name, counts[name],
					last[name], exact[name], sketch[name], v,
				)
			}
		}
	}
}

// scope takes everything of a source in [from, to).
func scope(source string, from, to time.Time) store.Scope {
	return store.Scope{Source: source, From: from, To: to, Cut: store.Cut{math.MaxUint64}}
}

func recount(w *viewtest.Writer, source string, from, to time.Time) map[string]store.Stage {
	out, seen := map[string]store.Stage{}, map[string]bool{}
	for _, e := range w.All {
		if (source != "" && e.SourceName != source) || e.OccurredAt.Before(from) || !e.OccurredAt.Before(to) {
			continue
		}
		v := out[e.Stage]
		v.Events++
		if !seen[e.Stage+e.ArticleURL] {
			seen[e.Stage+e.ArticleURL] = true
			v.Articles++
		}
		out[e.Stage] = v
	}
	return out
}

// TestWindows: both ways of counting agree with a recount for windows that
// begin and end anywhere, down to the nanosecond.
func TestWindows(t *testing.T) {
	t.Parallel()
	s, w := open(t, 5*time.Minute)
	w.Write(events(300)...)
	at := w.All[40].OccurredAt
	for _, span := range [][2]time.Time{
		{at, at.Add(1)},
		{at, at},
		{at.Add(1), at.Add(97 * time.Second)},
		{at.Add(1), at.Add(97*time.Second + 1)},
		{at.Truncate(15 * time.Minute), at.Truncate(15 * time.Minute).Add(15 * time.Minute)},
		{at.Truncate(15 * time.Minute).Add(1), at.Truncate(15 * time.Minute).Add(3 * time.Hour)},
		{at.Truncate(time.Hour), at.Add(5 * time.Hour)},
	} {
		want := recount(w, "", span[0], span[1])
		exact, err := s.Exact(t.Context(), scope("", span[0], span[1]))
		if err != nil {
			t.Fatal(err)
		}
		sketch, err := s.Sketch(t.Context(), scope("", span[0], span[1]))
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(exact) != fmt.Sprint(want) || fmt.Sprint(sketch) != fmt.Sprint(want) {
			t.Errorf("%v: exact %v, sketch %v, want %v", span, exact, sketch, want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s, w := open(t, 5*time.Minute)
	w.Write(events(90)...)
	to := epoch.Add(24 * time.Hour)
	if n, err := s.CountUpTo(t.Context(), scope("", epoch, to), 50); n != 50 || err != nil {
		t.Errorf("count up to 50: %d, %v", n, err)
	}
	if n, err := s.CountUpTo(t.Context(), scope(hostile, epoch, to), 50); n != 30 || err != nil {
		t.Errorf("count up to 50: %d, %v", n, err)
	}
	n := 0
	count := func(mirror.Event) error { n++; return nil }
	if err := s.SingleEvents(t.Context(), epoch, to, []uint64{90}, 7, count); n != 7 || err != nil {
		t.Errorf("single events: %d, %v", n, err)
	}
	n = 0
	if err := s.SingleEvents(t.Context(), epoch, to, []uint64{60}, 1000, count); n != 60 || err != nil {
		t.Errorf("single events up to sequence 60: %d, %v", n, err)
	}
	sources, totals, err := s.Sources(t.Context(), store.SourceFilter{From: epoch, To: to, Limit: 2})
	if err != nil || len(sources) != 2 || totals != (store.SourceTotals{Found: 3, Largest: 30, Events: 90}) ||
		sources[0].Name != "alpha" || sources[0].Events != 30 || sources[0].Rank != 1 {
		t.Errorf("sources: %+v, %+v, %v", sources, totals, err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	s, w := open(t, time.Nanosecond)
	w.Write(events(3)...)
	if _, err := s.Exact(t.Context(), scope("", epoch, epoch.Add(time.Hour))); !errors.Is(
		err, reads.ErrUnavailable,
	) {
		t.Errorf("a query that takes too long: %v", err)
	}
	s, _ = open(t, 5*time.Minute)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Exact(gone, scope("", epoch, epoch.Add(time.Hour))); !errors.Is(err, context.Canceled) ||
		errors.Is(err, reads.ErrUnavailable) {
		t.Errorf("a caller that has gone: %v", err)
	}
	if _, _, err := s.Events(t.Context(), store.EventFilter{Hash: "no hash'", Limit: 1}); errors.Is(
		err, reads.ErrUnavailable,
	) {
		t.Errorf("a query that is wrong: %v", err)
	}
}

// TestCut: each slot group's events are counted up to its own sequence.
func TestCut(t *testing.T) {
	t.Parallel()
	s, w := open(t, 5*time.Minute)
	w.Write(events(300)...)
	for _, cut := range []store.Cut{{0}, {120}, {math.MaxUint64}, {250, 40}, {7, 300, 0, 150, 299}} {
		want := map[string]uint64{}
		for _, e := range w.All {
			if e.Seq <= cut[int(e.Record.URLHash[0])%len(cut)] {
				want[e.Stage]++
			}
		}
		c := scope("", epoch.Add(-time.Hour), epoch.Add(24*time.Hour))
		c.Cut = cut
		got, err := s.Counts(t.Context(), c)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%v: %v, want %v, %v", cut, got, want, err)
		}
	}
}

// TestBreakdownsAreCut: where there are more names than asked for, the largest
// are told, and how many there are.
func TestBreakdownsAreCut(t *testing.T) {
	t.Parallel()
	s, w := open(t, 5*time.Minute)
	w.Write(events(90)...)
	c, roles := scope("", epoch, epoch.Add(24*time.Hour)), store.Roles{Crawl: "crawled"}
	for limit, want := range map[int]struct {
		sources map[string]uint64
		total   store.Total
	}{
		2: {map[string]uint64{"alpha": 15, "gamma": 15}, store.Total{Names: 3, Events: 45}},
		3: {map[string]uint64{"alpha": 15, "gamma": 15, hostile: 15}, store.Total{Names: 3, Events: 45}},
	} {
		b, err := s.Breakdowns(t.Context(), c, roles, limit)
		if err != nil || !maps.Equal(b.Sources, want.sources) || b.Totals["source"] != want.total {
			t.Errorf("%d: %+v, %v, want %+v", limit, b, err, want)
		}
	}
}

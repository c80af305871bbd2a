package pipeline

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// sourcePages follows the cursors from the first page to the last.
func (r *rig) sourcePages(pairs ...string) (all []Source, first Sources) {
	r.t.Helper()
	query := viewtest.Values(append([]string{"period", "24h"}, pairs...)...)
	for {
		var page Sources
		r.Must("/funnel/sources", query, &page)
		if len(all) == 0 {
			first = page
		}
		all = append(all, page.Sources...)
		if page.NextCursor == "" {
			return all, first
		}
		query.Set("cursor", page.NextCursor)
	}
}

func namesOf(sources []Source) (names []string) {
	for _, source := range sources {
		names = append(names, source.Name)
	}
	return names
}

// TestSources: any source is found by words of its name, in pages, with its place
// among all of them, its newest event and its longest silence.
func TestSources(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	var events []event.Event
	at := func(source string, ago time.Duration) {
		events = append(events, event.Event{
			ArticleURL: fmt.Sprint("https://example.com/", len(events)), SourceName: source, Stage: "crawled",
			OccurredAt: noon.Add(-ago), ServiceName: "test",
		})
	}
	for i := range 30 {
		for range 40 - i {
			at(fmt.Sprintf("source_%02d", i), time.Minute)
		}
	}
	for _, ago := range []time.Duration{9 * time.Hour, 8*time.Hour + 50*time.Minute, 2 * time.Hour, time.Hour} {
		at("The Silent_Herald", ago)
	}
	at("100% news", time.Minute)
	at("1000 news", time.Minute)
	at("news", 3*time.Hour)
	r.write(events...)

	all, first := r.sourcePages("limit", "7")
	if len(all) != 34 || first.Total != 34 || first.Largest != 40 || first.Events != uint64(len(events)) ||
		all[0].Name != "source_00" || len(slices.Compact(slices.Sorted(slices.Values(namesOf(all))))) != 34 {
		t.Errorf("%d sources, %+v", len(all), first)
	}
	for i, source := range all {
		if source.Rank != uint64(i+1) || i > 0 && source.Count > all[i-1].Count {
			t.Errorf("place %d has %+v", i+1, source)
		}
	}
	for search, want := range map[string][]string{
		"HERALD the": {"The Silent_Herald"},
		"silent her": {"The Silent_Herald"},
		"source_01":  {"source_01"},
		"Source 2": {
			"source_02", "source_12", "source_20", "source_21", "source_22", "source_23", "source_24", "source_25",
			"source_26", "source_27", "source_28", "source_29",
		},
		"0%":          {"100% news"},
		"news":        {"news", "100% news", "1000 news"},
		"no such one": nil,
		"%":           {"100% news"},
		"' OR 1=1 --": nil,
	} {
		found, page := r.sourcePages("q", search, "limit", "4")
		if names := namesOf(found); !slices.Equal(names, want) || page.Total != uint64(len(want)) {
			t.Errorf("%q finds %q of %d, want %q", search, names, page.Total, want)
		}
		if len(want) > 0 && (page.Largest != 40 || page.Events != uint64(len(events))) {
			t.Errorf("%q: totals %+v", search, page)
		}
	}
	found, _ := r.sourcePages("q", "herald")
	quarter := func(ago time.Duration) time.Time { return noon.Add(-ago).Truncate(15 * time.Minute) }
	from, to := quarter(8*time.Hour+50*time.Minute).Add(15*time.Minute), quarter(2*time.Hour)
	want := Source{
		Name: "The Silent_Herald", Count: 4, Rank: 31, LastEventAt: noon.Add(-time.Hour),
		LongestGap: &SourceGap{from, to, int64(to.Sub(from).Seconds())},
	}
	if len(found) != 1 || !reflect.DeepEqual(found[0], want) {
		t.Errorf("%+v, want %+v", found, want)
	}
	if all[0].LongestGap != nil {
		t.Errorf("a source without a gap: %+v", all[0].LongestGap)
	}
}

func TestLongestGap(t *testing.T) {
	const quarter = uint32(funnel.Quarter)
	for _, tc := range []struct {
		begins []uint32
		want   int64
	}{
		{nil, 0},
		{[]uint32{0}, 0},
		{[]uint32{0, quarter, 4 * quarter}, 0},
		{[]uint32{0, 5 * quarter, 6 * quarter, 10 * quarter}, 3600},
		{[]uint32{0, 5 * quarter, 11 * quarter}, 4500},
	} {
		var got int64
		if gap := longestGap(tc.begins, funnel.Quarter); gap != nil {
			got = gap.Seconds
		}
		if got != tc.want {
			t.Errorf("%v: %d s, want %d", tc.begins, got, tc.want)
		}
	}
}

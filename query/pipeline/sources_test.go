package pipeline

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
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
		LongestGap: &SourceGap{from, to, int64(to.Sub(from).Seconds())}, Counts: make([]uint64, 25),
	}
	begun := noon.Add(-24 * time.Hour).Truncate(15 * time.Minute)
	if want := (SourceParts{begun, 3600}); first.Parts != want {
		t.Errorf("parts are %+v, want %+v", first.Parts, want)
	}
	for _, ago := range []time.Duration{9 * time.Hour, 8*time.Hour + 50*time.Minute, 2 * time.Hour, time.Hour} {
		want.Counts[quarter(ago).Sub(begun)/time.Hour]++
	}
	if len(found) != 1 || !reflect.DeepEqual(found[0], want) {
		t.Errorf("%+v, want %+v", found, want)
	}
	if all[0].LongestGap != nil {
		t.Errorf("a source without a gap: %+v", all[0].LongestGap)
	}
}

// TestExportSources: a file of each format has the sources of the pages, in their
// order and with all that is said of them.
func TestExportSources(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	var events []event.Event
	for i := range exportedSources + 5 {
		e := event.Event{
			ArticleURL: "https://example.com/a", SourceName: fmt.Sprintf("source_%04d", i), Stage: "crawled",
			OccurredAt: noon.Add(-time.Minute), ServiceName: "test",
		}
		events = append(events, e)
		e.OccurredAt = noon.Add(-7*time.Hour - time.Duration(i)*time.Second)
		if i%2 == 0 {
			events = append(events, e)
		}
	}
	events[0].SourceName = "=1+1"
	r.write(events...)
	want, _ := r.sourcePages("limit", "1000")
	for i := range want {
		want[i].Counts = nil
	}
	read := func(format string) []byte {
		t.Helper()
		resp, err := http.Get(r.URL + "/api/v1/funnel/sources/export?period=24h&format=" + format)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v: %s", resp.StatusCode, err, content)
		}
		return content
	}
	var lines []Source
	for dec := json.NewDecoder(bytes.NewReader(read("ndjson"))); dec.More(); {
		var one Source
		if err := dec.Decode(&one); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, one)
	}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("%d lines are not the %d sources of the pages", len(lines), len(want))
	}
	content := read("parquet")
	rows, err := parquet.Read[parquetSource](bytes.NewReader(content), int64(len(content)))
	if err != nil || len(rows) != len(want) {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	table, err := csv.NewReader(bytes.NewReader(read("csv"))).ReadAll()
	if err != nil || len(table) != 1+len(want) || !slices.Equal(table[0], sourceTable.Columns) {
		t.Fatalf("%d lines: %v", len(table), err)
	}
	for i, source := range want {
		got := rows[i]
		same := got.Rank == source.Rank && got.Name == source.Name && got.Count == source.Count &&
			got.LastEventAt.Equal(source.LastEventAt) && (got.GapFrom == nil) == (source.LongestGap == nil)
		cells := table[i+1]
		name, gap := source.Name, []string{"", "", "0"}
		if name == "=1+1" {
			name = "'=1+1"
		}
		if g := source.LongestGap; g != nil {
			same = same && got.GapFrom.Equal(g.From) && got.GapTo.Equal(g.To) && got.GapSeconds == g.Seconds
			gap = []string{g.From.Format(time.RFC3339), g.To.Format(time.RFC3339), fmt.Sprint(g.Seconds)}
		}
		cell := append([]string{
			fmt.Sprint(source.Rank), name, fmt.Sprint(source.Count), source.LastEventAt.Format(time.RFC3339Nano),
		}, gap...)
		if !same || !slices.Equal(cells, cell) {
			t.Fatalf("%+v\nis in Parquet %+v\nand in CSV %q", source, got, cells)
		}
	}
}

// TestParts: a window has a number of parts that can be drawn, however long it is.
func TestParts(t *testing.T) {
	t.Parallel()
	const hour, day = 3600, 24 * 3600
	for _, tc := range []struct {
		span    time.Duration
		seconds int64
	}{
		{time.Minute, 900},
		{11 * time.Hour, 900},
		{13 * time.Hour, hour},
		{24 * time.Hour, hour},
		{49 * time.Hour, 6 * hour},
		{7 * 24 * time.Hour, 6 * hour},
		{30 * 24 * time.Hour, day},
		{40 * 24 * time.Hour, day},
		{90 * 24 * time.Hour, 7 * day},
		{2 * 366 * 24 * time.Hour, 30 * day},
		{30 * 366 * 24 * time.Hour, 365 * day},
	} {
		w := reads.Window{From: noon.Add(-tc.span), To: noon}
		parts := partsOf(w, bucketsOf(w))
		n := len(parts.count(store.Activity{}, w.To))
		if parts.Seconds != tc.seconds || n < 1 || n > mostParts+1 || parts.From.After(w.From) {
			t.Errorf("%v has %d parts: %+v", tc.span, n, parts)
		}
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

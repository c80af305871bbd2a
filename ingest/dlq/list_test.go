package dlq

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Every page size reads each letter once in either order, over gaps and
// though all letters are of one moment.
func TestPages(t *testing.T) {
	f := start(t)
	at := time.Now()
	var all []uint64
	for i := range 400 {
		code := "json"
		if i%10 == 0 {
			code = "rare"
		}
		all = append(all, f.put(dead{seq: uint64(i + 1), at: at, code: code}))
	}
	random := rand.New(rand.NewPCG(1, 2))
	var gone []string
	all = slices.DeleteFunc(all, func(id uint64) bool {
		if drop := (id > 60 && id < 350) || random.IntN(5) == 0; drop && len(gone) < MaxIDs {
			gone = append(gone, fmt.Sprint(id))
			return true
		}
		return false
	})
	f.purge(Selection{IDs: gone}, false)
	var rare []uint64
	for _, id := range all {
		if (id-1)%10 == 0 {
			rare = append(rare, id)
		}
	}
	for _, scan := range []int{100_000, 20} {
		f.cfg.MaxScan = scan
		for _, limit := range []int{1, 7, 100, 1000} {
			for filter, want := range map[Filter][]uint64{
				{}: all, {Code: "rare"}: rare,
				{Stream: "EVENTS", Code: "rare"}: rare, {Stream: "NONE"}: nil,
			} {
				if limit == 1 && len(want) > 50 {
					continue
				}
				up, down := f.pages(filter, true, limit), f.pages(filter, false, limit)
				slices.Reverse(down)
				if !slices.Equal(up, want) || !slices.Equal(down, want) {
					t.Errorf("%+v by %d: %d up, %d down, want %d", filter, limit, len(up), len(down), len(want))
				}
			}
		}
	}
}

func (f fixture) pages(filter Filter, oldest bool, limit int) (ids []uint64) {
	f.t.Helper()
	o := ListOptions{Filter: filter, Oldest: oldest, Limit: limit}
	for {
		page, err := f.List(f.t.Context(), o)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, l := range page.Letters {
			ids = append(ids, l.ID)
		}
		if len(page.Letters) > limit {
			f.t.Errorf("a page of %d letters, with limit %d", len(page.Letters), limit)
		}
		if o.Cursor = page.NextCursor; o.Cursor == 0 {
			return ids
		}
	}
}

func TestEmptyAndBeyond(t *testing.T) {
	f := start(t)
	for range 2 {
		for _, o := range []ListOptions{
			{Limit: 10},
			{Limit: 10, Oldest: true},
			{Limit: 10, Cursor: 1},
			{Limit: 10, Oldest: true, Cursor: math.MaxUint64},
			{Limit: 10, Oldest: true, Cursor: 9},
		} {
			if page, err := f.List(t.Context(), o); err != nil || len(page.Letters) > 1 || page.NextCursor != 0 ||
				page.Letters == nil {
				t.Errorf("%+v: %+v, %v", o, page, err)
			}
		}
		f.put(dead{seq: uint64(f.letters() + 1)})
	}
	f.purge(Selection{All: true}, false)
	if ids := f.pages(Filter{}, false, 5); ids != nil {
		t.Errorf("%v", ids)
	}
}

func TestFilters(t *testing.T) {
	f := start(t)
	noon := time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)
	f.put(dead{seq: 1, subject: "events.crawled.a3", code: "json", at: noon})
	f.put(dead{seq: 2, subject: "events.cooked.a3", code: "stage_unknown", field: "stage", at: noon.Add(time.Hour)})
	f.put(dead{seq: 1, stream: "WORK", subject: "work.cooked", code: "json", at: noon.Add(2 * time.Hour)})
	f.put(dead{seq: 3, subject: "", code: "", at: noon.Add(3 * time.Hour)})
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "[1 2 3 4]"},
		{Filter{Stream: "EVENTS"}, "[1 2 4]"},
		{Filter{Stream: "events"}, "[]"},
		{Filter{Code: "json"}, "[1 3]"},
		{Filter{Field: "stage"}, "[2]"},
		{Filter{Subject: ">"}, "[1 2 3]"},
		{Filter{Subject: "*.*.a3"}, "[1 2]"},
		{Filter{Subject: "events.*"}, "[]"},
		{Filter{Subject: "events.>"}, "[1 2]"},
		{Filter{Subject: "*.cooked"}, "[3]"},
		{Filter{Subject: "events.crawled.a3.>"}, "[]"},
		{Filter{Since: noon.Add(time.Hour)}, "[2 3 4]"},
		{Filter{Until: noon.Add(time.Hour)}, "[1]"},
		{Filter{Since: noon, Until: noon.Add(2 * time.Hour), Code: "json"}, "[1]"},
	} {
		if got := fmt.Sprint(f.pages(c.filter, true, 2)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.filter, got, c.want)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	f := start(t)
	now := time.Now()
	for i, err := range []error{
		Filter{Subject: "a..b"}.Check(), Filter{Subject: "a.>.b"}.Check(), Filter{Subject: "a b"}.Check(),
		Filter{Subject: "a\x1b[2J"}.Check(),
		Filter{Code: "a\n"}.Check(), Filter{Field: "\xff"}.Check(), Filter{Code: strings.Repeat("x", 513)}.Check(),
		Filter{Stream: "EVENTS.>"}.Check(), Filter{Stream: "*"}.Check(), Filter{Stream: "a b"}.Check(),
		Filter{Since: now, Until: now}.Check(),
		(&Selection{}).Check(), (&Selection{All: true, IDs: []string{"1"}}).Check(),
		(&Selection{All: true, Filter: Filter{Code: "x"}}).Check(),
		(&Selection{IDs: make([]string, 1001)}).Check(), (&Selection{All: true, Limit: 10_001}).Check(),
		(&Selection{All: true, Limit: -1}).Check(),
		(&Selection{IDs: []string{"1", "-1"}}).Check(),
		second(f.List(t.Context(), ListOptions{})), second(f.List(t.Context(), ListOptions{Limit: 1001})),
		second(ParseCursor("7")), second(ParseCursor("7-6")), second(ParseCursor("a-b")), second(ParseCursor("0-7")),
	} {
		var invalid *Invalid
		if !errors.As(err, &invalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestShow(t *testing.T) {
	f := start(t)
	f.put(dead{seq: 3, subject: "events.cooked.a3", code: "json", field: "stage", body: "grüße"})
	f.put(dead{seq: 4, body: "\xff\x00"})
	for _, id := range []string{"1", "EVENTS/3"} {
		got, err := f.Show(t.Context(), id)
		if err != nil || got.ID != 1 || got.Origin != "EVENTS/3" || got.Body != "grüße" || got.BodyEncoding != "text" ||
			got.Size != 7 ||
			got.Reason != "must be better" || got.Headers[stream.HeaderSeq][0] != "3" ||
			got.Headers["Nats-Sequence"] != nil || got.Headers[stream.HeaderCode][0] != "json" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	got, err := f.Show(t.Context(), "EVENTS/4")
	if body, _ := base64.StdEncoding.DecodeString(got.Body); err != nil || got.BodyEncoding != "base64" ||
		string(body) != "\xff\x00" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, id := range []string{"3", "EVENTS/5", "WORK/3", "18446744073709551615"} {
		if _, err := f.Show(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, id := range []string{
		"", "0", "x", "1.5", "EVENTS/", "/3", "EVENTS/3/4", "EVENTS.>/3", "*/3", "-1", "+1",
		"99999999999999999999",
	} {
		var invalid *Invalid
		if _, err := f.Show(t.Context(), id); !errors.As(err, &invalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestPurge(t *testing.T) {
	f := start(t)
	for i := range 40 {
		code, name := "json", "EVENTS"
		if i >= 20 {
			code, name = "size", "WORK"
		}
		f.put(dead{seq: uint64(i + 1), code: code, stream: name})
	}
	f.want(f.purge(Selection{Filter: Filter{Code: "size"}}, true), "matched 20 replayed 0 (0) kept 0 deleted 0")
	f.want(f.purge(Selection{All: true}, true), "matched 40 replayed 0 (0) kept 0 deleted 0")
	r := f.purge(Selection{IDs: []string{"1", "EVENTS/1", "WORK/21", "EVENTS/21", "77"}}, false)
	if f.want(r, "matched 2 replayed 0 (0) kept 0 deleted 2"); fmt.Sprint(r.Missing) != "[EVENTS/21 77]" {
		t.Errorf("%v", r.Missing)
	}
	if n, err := f.deleteAll(t.Context(), []uint64{1, 2, 1000}); err != nil || n != 3 {
		t.Errorf("what is gone cannot be deleted: %d, %v", n, err)
	}
	r = f.purge(Selection{Filter: Filter{Code: "size"}, Limit: 15}, false)
	if f.want(r, "matched 15 replayed 0 (0) kept 0 deleted 15"); r.NextCursor == "" {
		t.Error("there is more to purge")
	}
	f.want(f.purge(Selection{Filter: Filter{Stream: "WORK"}}, false), "matched 4 replayed 0 (0) kept 0 deleted 4")
	f.want(f.purge(Selection{All: true}, false), "matched 18 replayed 0 (0) kept 0 deleted 18")
	f.want(f.purge(Selection{All: true}, false), "matched 0 replayed 0 (0) kept 0 deleted 0")
}

// TestLargeLetters: a letter as large as letters may be hides none behind it.
func TestLargeLetters(t *testing.T) {
	f := start(t)
	most := int(f.js.Conn().MaxPayload()) - 1000
	for i, size := range []int{3, most, most, 0} {
		f.put(dead{seq: uint64(i + 1), subject: "events.a.00", body: strings.Repeat("x", size)})
	}
	for _, oldest := range []bool{true, false} {
		page, err := f.List(t.Context(), ListOptions{Limit: 10, Oldest: oldest})
		if err != nil || len(page.Letters) != 4 {
			t.Errorf("%d letters, %v", len(page.Letters), err)
		}
	}
	f.want(f.purge(Selection{All: true}, false), "matched 4 replayed 0 (0) kept 0 deleted 4")
}

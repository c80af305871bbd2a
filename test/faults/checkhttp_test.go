package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pages serves events in pages of 1000, the newest first. A cursor is a number
// of events.
func pages(t *testing.T, events []httpEvent) (addr string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor")) // none is the first page
		to := min(from+1000, len(events))
		list := []map[string]any{}
		for _, e := range events[from:to] {
			fields := asJSON(e).(map[string]any)
			fields["metadata"] = json.RawMessage(e.Metadata)
			list = append(list, fields)
		}
		page := map[string]any{"events": list}
		if to < len(events) {
			page["next_cursor"] = fmt.Sprint(to)
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// TestPages: all pages together have each event once, in order and as it was
// sent.
func TestPages(t *testing.T) {
	w := world(t, 120)
	var right []httpEvent
	for _, e := range slices.Backward(w.told) {
		right = append(right, e.event())
	}
	if len(right) < 1500 {
		t.Fatalf("%d events are no two pages", len(right))
	}
	for name, test := range map[string]struct {
		change func([]httpEvent) []httpEvent
		wrong  bool
	}{
		"right":    {func(all []httpEvent) []httpEvent { return all }, false},
		"missing":  {func(all []httpEvent) []httpEvent { return slices.Delete(all, 999, 1000) }, true},
		"twice":    {func(all []httpEvent) []httpEvent { return slices.Insert(all, 1000, all[999]) }, true},
		"too many": {func(all []httpEvent) []httpEvent { return append(all, all[0]) }, true},
		"too few":  {func(all []httpEvent) []httpEvent { return all[:1400] }, true},
		"order":    {func(all []httpEvent) []httpEvent { all[7], all[8] = all[8], all[7]; return all }, true},
		"a column": {func(all []httpEvent) []httpEvent { all[1200].Received = all[1199].At; return all }, true},
		"metadata": {func(all []httpEvent) []httpEvent { all[1200].Metadata = `{"x":1}`; return all }, true},
	} {
		v := &verdict{}
		if err := v.comparePages(t.Context(), pages(t, test.change(slices.Clone(right))), w); err != nil {
			t.Fatal(err)
		}
		if (len(v.mismatches) == 1) != test.wrong {
			t.Errorf("%s: %q", name, v.mismatches)
		}
	}
}

// TestBegins: a window begins where the recount says, also one that was asked
// for before midnight and answered after it.
func TestBegins(t *testing.T) {
	w := world(t, 1)
	now := time.Now()
	for _, q := range w.questions() {
		for off, right := range map[time.Duration]bool{0: true, -time.Second: false, time.Hour: false} {
			if q.began(q.begins(now).Add(off), now) != right {
				t.Errorf("%s: %s off", q.params, off)
			}
		}
	}
	if got := startOfDay(time.Date(2026, 2, 10, 18, 20, 0, 0, time.UTC)); !got.Equal(time.Date(2026, 2, 10, 18, 15,
		0, 0, time.UTC)) {
		t.Errorf("the day begins at %s", got.UTC())
	}
}

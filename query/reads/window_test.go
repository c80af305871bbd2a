package reads

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestToday(t *testing.T) {
	for _, tc := range []struct{ zone, now, from, why string }{
		{"", "2026-02-10T15:42:00.123456Z", "2026-02-10T00:00:00Z", "the default zone"},
		{"UTC", "2026-02-10T00:00:00Z", "2026-02-10T00:00:00Z", "midnight belongs to its day"},
		{"Asia/Kathmandu", "2026-02-10T18:14:59Z", "2026-02-09T18:15:00Z", "an offset of 5:45"},
		{"Asia/Kathmandu", "2026-02-10T18:15:00Z", "2026-02-10T18:15:00Z", "an offset of 5:45"},
		{"Asia/Kolkata", "2026-02-10T12:00:00Z", "2026-02-09T18:30:00Z", "an offset of 5:30"},
		{"Pacific/Chatham", "2026-07-01T12:00:00Z", "2026-07-01T11:15:00Z", "an offset of 12:45"},
		{"Pacific/Kiritimati", "2026-02-10T09:59:00Z", "2026-02-09T10:00:00Z", "an offset of 14:00"},
		{"Pacific/Pago_Pago", "2026-02-10T10:59:00Z", "2026-02-09T11:00:00Z", "an offset of -11:00"},
		{"Pacific/Apia", "2011-12-31T02:00:00Z", "2011-12-30T10:00:00Z", "the day before was skipped"},
		{"Europe/Berlin", "2026-03-29T20:00:00Z", "2026-03-28T23:00:00Z", "a day of 23 hours"},
		{"Europe/Berlin", "2026-10-25T22:30:00Z", "2026-10-24T22:00:00Z", "a day of 25 hours"},
		{"America/New_York", "2026-11-01T23:00:00Z", "2026-11-01T04:00:00Z", "a day of 25 hours"},
		{"America/Sao_Paulo", "2017-10-15T12:00:00Z", "2017-10-15T03:00:00Z", "no midnight: the day begins at 01:00"},
		{"America/Sao_Paulo", "2018-02-17T12:00:00Z", "2018-02-17T02:00:00Z", "summer time ends at this day's end"},
		{"America/Sao_Paulo", "2018-02-18T12:00:00Z", "2018-02-18T03:00:00Z", "23:00 came twice on the day before"},
		{
			"America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z",
			"the second 23:30 is still the day before",
		},
		{"America/Havana", "2025-11-02T12:00:00Z", "2025-11-02T04:00:00Z", "midnight comes twice"},
		{"America/Havana", "2025-11-02T05:30:00Z", "2025-11-02T04:00:00Z", "after the second midnight"},
		{"America/Havana", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "no midnight"},
		{"America/St_Johns", "2006-10-29T12:00:00Z", "2006-10-29T02:30:00Z", "clocks fall back at 00:01"},
		{
			"Asia/Gaza", "2011-08-01T12:00:00Z", "2011-07-31T22:00:00Z",
			"summer time is suspended for Ramadan at midnight, which then comes an hour later",
		},
		{"Asia/Gaza", "2015-03-28T12:00:00Z", "2015-03-27T22:00:00Z", "no midnight"},
		{"Australia/Lord_Howe", "2026-04-05T12:00:00Z", "2026-04-04T13:00:00Z", "summer time of half an hour ends"},
		{"Australia/Lord_Howe", "2026-10-04T12:00:00Z", "2026-10-03T13:30:00Z", "summer time of half an hour begins"},
		{"Asia/Beirut", "2026-03-29T12:00:00Z", "2026-03-28T22:00:00Z", "no midnight"},
		{"Africa/Monrovia", "1971-12-31T12:00:00Z", "1971-12-31T00:44:30Z", "an offset that is no whole quarter"},
	} {
		s, err := ParseWindow(WindowRequest{TZ: tc.zone})
		if err != nil {
			t.Fatalf("%s: %v", tc.zone, err)
		}
		w := s.At(at(t, tc.now))
		if !w.From.Equal(at(t, tc.from)) || w.From.Location() != time.UTC {
			t.Errorf("%s at %s (%s): from %s, want %s", tc.zone, tc.now, tc.why, w.From, tc.from)
		}
		if !w.Live || w.Period != Today || !w.To.Equal(at(t, tc.now).Truncate(time.Millisecond)) {
			t.Errorf("%s: window %+v", tc.zone, w)
		}
	}
}

// TestTodayEverywhere walks zones hour by hour through two years and compares
// with the definition: no earlier moment of the same local day, and the moment
// before belongs to another day.
func TestTodayEverywhere(t *testing.T) {
	for _, zone := range []string{
		"UTC", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Asia/Gaza", "Asia/Kathmandu", "Asia/Beirut",
		"Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia", "Africa/Cairo", "Asia/Tehran", "America/Asuncion",
		"Atlantic/Azores",
	} {
		s, err := ParseWindow(WindowRequest{TZ: zone})
		if err != nil {
			t.Fatal(err)
		}
		for now := at(t, "2010-12-31T23:13:00Z"); now.Year() < 2013; now = now.Add(61 * time.Minute) {
			from := s.At(now).From
			day := now.In(s.loc).Format(time.DateOnly)
			if got := from.In(s.loc).Format(time.DateOnly); got != day {
				t.Fatalf("%s at %s: the day begins at %s, on %s", zone, now, from, got)
			}
			if from.After(now) || now.Sub(from) > 25*time.Hour ||
				from.Add(-time.Nanosecond).In(s.loc).Format(time.DateOnly) == day {
				t.Fatalf("%s at %s: the day begins at %s", zone, now, from)
			}
		}
	}
}

func TestRolling(t *testing.T) {
	now := at(t, "2026-03-29T15:42:03.987654321Z")
	for period, length := range map[string]time.Duration{
		"24h": 24 * time.Hour, "7d": 168 * time.Hour,
		"30d": 720 * time.Hour,
	} {
		s, err := ParseWindow(WindowRequest{Period: period, TZ: "Europe/Berlin"})
		if err != nil {
			t.Fatal(err)
		}
		w := s.At(now)
		want := Window{
			period, "Europe/Berlin", now.Truncate(time.Millisecond).Add(-length),
			now.Truncate(time.Millisecond), true,
		}
		if w != want {
			t.Errorf("%s: %+v, want %+v", period, w, want)
		}
	}
}

func TestCustom(t *testing.T) {
	s, err := ParseWindow(WindowRequest{From: "2026-02-10T00:00:00.5+05:45", To: "2026-02-11T00:00:00Z", TZ: "Asia/Kathmandu"})
	if err != nil {
		t.Fatal(err)
	}
	want := Window{Custom, "Asia/Kathmandu", at(t, "2026-02-09T18:15:00.5Z"), at(t, "2026-02-11T00:00:00Z"), false}
	if w := s.At(time.Time{}); w != want {
		t.Errorf("%+v, want %+v", w, want)
	}
}

func TestInvalid(t *testing.T) {
	const from, to = "2026-02-10T00:00:00Z", "2026-02-11T00:00:00Z"
	noon := at(t, "2026-02-09T12:00:00Z")
	for _, tc := range []struct {
		req         WindowRequest
		field, code string
	}{
		{WindowRequest{Period: "1h"}, "period", "period_unknown"},
		{WindowRequest{Period: "custom"}, "period", "period_unknown"},
		{WindowRequest{Period: "TODAY"}, "period", "period_unknown"},
		{WindowRequest{Period: "today", From: from, To: to}, "period", "period_or_times"},
		{WindowRequest{From: from}, "from", "span_order"},
		{WindowRequest{From: from, Now: noon}, "from", "span_order"},
		{WindowRequest{From: "2020-01-01T00:00:00Z", Now: noon}, "from", "span_length"},
		{WindowRequest{From: "yesterday", Now: noon}, "from", "time_format"},
		{WindowRequest{Period: "today", From: "2026-01-01T00:00:00Z", Now: noon}, "period", "period_or_times"},
		{WindowRequest{To: to}, "from", "missing"},
		{WindowRequest{From: to, To: from}, "to", "span_order"},
		{WindowRequest{From: from, To: from}, "to", "span_order"},
		{WindowRequest{From: "2020-01-01T00:00:00Z", To: to}, "to", "span_length"},
		{WindowRequest{From: "2026-02-10", To: to}, "from", "time_format"},
		{WindowRequest{From: "2026-02-10T00:00:00 02:00", To: to}, "from", "time_format"},
		{WindowRequest{From: from, To: "tomorrow"}, "to", "time_format"},
		{WindowRequest{From: "1969-12-31T23:59:59Z", To: to}, "from", "time_format"},
		{WindowRequest{From: from, To: "9999-01-01T00:00:00Z"}, "to", "time_format"},
		{WindowRequest{TZ: "Mars/Olympus"}, "tz", "zone_unknown"},
		{WindowRequest{TZ: "Local"}, "tz", "zone_unknown"},
		{WindowRequest{TZ: "../../etc/passwd"}, "tz", "zone_unknown"},
		{WindowRequest{TZ: "/etc/localtime"}, "tz", "zone_unknown"},
		{WindowRequest{TZ: "+02:00"}, "tz", "zone_unknown"},
		{WindowRequest{TZ: "UTC' OR 1=1 --"}, "tz", "zone_unknown"},
		{WindowRequest{TZ: "Europe/Berlin\x00"}, "tz", "zone_unknown"},
		{WindowRequest{TZ: "Europe"}, "tz", "zone_unknown"},
	} {
		_, err := ParseWindow(tc.req)
		faults := faultsOf(err)
		if len(faults) != 1 {
			t.Errorf("%+v: %v, want one fault", tc.req, err)
			continue
		}
		if invalid := faults[0]; invalid.Field != tc.field || invalid.Code != tc.code || invalid.Rule == "" {
			t.Errorf("%+v: %v, want %s %s", tc.req, err, tc.field, tc.code)
		}
	}
}

// TestOpen: a window without an end ends at the time of the request.
func TestOpen(t *testing.T) {
	now := at(t, "2026-02-10T12:00:00Z")
	s, err := ParseWindow(WindowRequest{From: "2026-02-10T00:00:00Z", TZ: "Asia/Kathmandu", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	want := Window{Custom, "Asia/Kathmandu", at(t, "2026-02-10T00:00:00Z"), at(t, "2026-02-10T13:00:00.001Z"), false}
	if w := s.At(at(t, "2026-02-10T13:00:00.0019Z")); w != want || s.Live() || !s.Moves() {
		t.Errorf("%+v, want %+v", w, want)
	}
	closed, err := ParseWindow(WindowRequest{From: "2026-02-10T00:00:00Z", To: "2026-02-10T12:00:00Z", TZ: "Asia/Kathmandu"})
	if err != nil || closed.Moves() || closed.Key() == s.Key() {
		t.Errorf("a window with an end: %v, key %s as without one: %s", err, closed.Key(), s.Key())
	}
}

// TestWindowFaults: all fields that break a rule are told at once.
func TestWindowFaults(t *testing.T) {
	_, err := ParseWindow(WindowRequest{Period: "7d", From: "yesterday", To: "today", TZ: "Mars"})
	var fields []string
	for _, e := range faultsOf(err) {
		fields = append(fields, e.Field)
	}
	if want := []string{"tz", "period", "from", "to"}; !slices.Equal(fields, want) {
		t.Errorf("%v, want %v", fields, want)
	}
}

// faultsOf lists the rules that an error of Parse joins.
func faultsOf(err error) (all []*event.Invalid) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, e.(*event.Invalid))
		}
	}
	return all
}

func FuzzParse(f *testing.F) {
	f.Add("today", "", "", "Asia/Kathmandu", int64(1_770_000_000))
	f.Add("", "2026-02-10T00:00:00Z", "2026-02-11T00:00:00Z", "", int64(0))
	f.Add("", "2026-02-10T00:00:00Z", "", "", int64(1_790_000_000))
	f.Fuzz(func(t *testing.T, period, from, to, zone string, sec int64) {
		now := time.Unix(sec&(1<<32-1), 0)
		s, err := ParseWindow(WindowRequest{period, from, to, zone, now})
		if err != nil {
			return
		}
		if w := s.At(now); w.From.After(w.To) || w.To.Sub(w.From) > MaxSpan {
			t.Fatalf("window %+v", w)
		}
	})
}

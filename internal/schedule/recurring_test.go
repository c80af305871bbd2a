package schedule_test

import (
	"archive/zip"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/schedule"
)

func compile(t testing.TB, s schedule.Spec) *schedule.Recurring {
	t.Helper()
	r, broken := s.Compile()
	if broken != nil {
		t.Fatalf("%+v: %+v", s, broken)
	}
	return r
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse("2006-01-02T15:04Z07:00", text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNextInterval (1): an interval is due at its anchor and at whole intervals from there.
func TestNextInterval(t *testing.T) {
	t.Parallel()
	r := compile(t, schedule.Spec{Interval: 90 * time.Minute, Anchor: at(t, "2026-01-01T00:20Z")})
	for _, c := range []struct{ after, next string }{
		{"2025-12-01T00:00Z", "2026-01-01T00:20Z"},
		{"2026-01-01T00:19Z", "2026-01-01T00:20Z"},
		{"2026-01-01T00:20Z", "2026-01-01T01:50Z"},
		{"2026-01-01T01:49Z", "2026-01-01T01:50Z"},
		{"2126-01-01T00:20Z", "2126-01-01T01:50Z"},
	} {
		if got := r.Next(at(t, c.after)); !got.Equal(at(t, c.next)) {
			t.Errorf("after %s: %s, want %s", c.after, got, c.next)
		}
	}
}

// TestChangesOfClocks names what each rule gives where clocks change.
func TestChangesOfClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, cron, zone, after string
		next                    []string
	}{
		{
			"2: once, at the change", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
			[]string{"2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"},
		},
		{
			"2: once for all that is left out", "5,10,50 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
			[]string{"2026-03-29T03:00+02:00", "2026-03-30T02:05+02:00"},
		},
		{
			"2: once with what is named for the change itself", "30,0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
			[]string{"2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"},
		},
		{
			"2: half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z",
			[]string{"2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"},
		},
		{
			"2: midnight", "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00Z",
			[]string{"2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"},
		},
		{
			"2: a whole day", "0 9 * * *", "Pacific/Apia", "2011-12-29T22:00Z",
			[]string{"2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00"},
		},
		{
			"3: when it comes first", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z",
			[]string{"2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"},
		},
		{
			"3: the second of the change is the first of what follows", "0 3 * * *", "Europe/Berlin", "2026-10-24T12:00Z",
			[]string{"2026-10-25T03:00+01:00", "2026-10-26T03:00+01:00"},
		},
		{
			"3: asked in between", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z",
			[]string{"2026-10-26T02:30+01:00"},
		},
		{
			"4: nothing is left out", "*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
			[]string{"2026-03-30T02:00+02:00", "2026-03-30T02:30+02:00"},
		},
		{
			"4: both times", "0 * * * *", "Europe/Berlin", "2026-10-24T23:00Z",
			[]string{"2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"},
		},
		{
			"4: by its name", "@hourly", "Europe/Berlin", "2026-03-29T00:00Z",
			[]string{"2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"},
		},
		{
			"1: either day, as in a crontab", "0 0 13 * fri", "UTC", "2026-02-10T00:00Z",
			[]string{"2026-02-13T00:00Z", "2026-02-20T00:00Z"},
		},
		{
			"1: years without the 29th of February", "0 0 29 2 *", "UTC", "2096-02-29T00:00Z",
			[]string{"2104-02-29T00:00Z"},
		},
		{"1: Sunday is 7, too", "0 0 * * 7", "", "2026-11-23T00:00Z", []string{"2026-11-29T00:00Z"}},
	} {
		now := at(t, c.after)
		for _, want := range c.next {
			next := compile(t, schedule.Spec{Cron: c.cron, Zone: c.zone}).Next(now)
			if !next.Equal(at(t, want)) {
				t.Errorf("rule %s: %s in %s after %s: %s, want %s", c.rule, c.cron, c.zone, now, next, want)
			}
			now = next
		}
	}
}

func TestUpcoming(t *testing.T) {
	t.Parallel()
	r := compile(t, schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"})
	var got []string
	for _, run := range r.Upcoming(at(t, "2026-03-28T00:00Z"), 3) {
		got = append(got, run.At.Format(time.RFC3339)+" "+run.Shift.String())
	}
	want := "[2026-03-28T02:30:00+01:00 0s 2026-03-29T03:00:00+02:00 1h0m0s 2026-03-30T02:30:00+02:00 0s]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestBadSpecs(t *testing.T) {
	t.Parallel()
	anchor := at(t, "2026-01-01T00:00Z")
	for _, c := range []struct {
		spec          schedule.Spec
		fields, rules string
	}{
		{schedule.Spec{}, "interval_minutes", "from 1 to 527040"},
		{schedule.Spec{Interval: time.Second, Anchor: anchor}, "interval_minutes", "whole minutes"},
		{schedule.Spec{Interval: 400 * 24 * time.Hour, Anchor: anchor}, "interval_minutes", "from 1 to 527040"},
		{schedule.Spec{Interval: time.Hour}, "anchor", "1970"},
		{schedule.Spec{Interval: time.Hour, Anchor: anchor, Zone: "UTC"}, "timezone", "an interval has none"},
		{schedule.Spec{Interval: time.Hour, Cron: "@daily"}, "interval_minutes", "beside cron"},
		{schedule.Spec{Cron: "@daily", Zone: "Mars/Olympus"}, "timezone", "Mars/Olympus"},
		{schedule.Spec{Cron: "@daily", Zone: "Local"}, "timezone", "tz database"},
		{schedule.Spec{Cron: "60 * * * *", Zone: "x"}, "timezone cron", "(60)"},
		{schedule.Spec{Cron: "* * * *"}, "cron", "five fields"},
		{schedule.Spec{Cron: "0 * * * * *"}, "cron", "five fields"},
		{schedule.Spec{Cron: "* * * * * 2026"}, "cron", "five fields"},
		{schedule.Spec{Cron: "@every 5m"}, "cron", "interval_minutes"},
		{schedule.Spec{Cron: "@reboot"}, "cron", "@reboot"},
		{schedule.Spec{Cron: "TZ=UTC * * * * *"}, "cron", "timezone"},
		{schedule.Spec{Cron: "0 0 30 2 *"}, "cron", "no month"},
		{schedule.Spec{Cron: "*/0 * * * *"}, "cron", "step"},
		{schedule.Spec{Cron: strings.Repeat("*", 300)}, "cron", "255"},
	} {
		_, broken := c.spec.Compile()
		var fields, rules []string
		for _, b := range broken {
			fields, rules = append(fields, b.Field), append(rules, b.Rule)
		}
		if strings.Join(fields, " ") != c.fields || !strings.Contains(strings.Join(rules, " "), c.rules) {
			t.Errorf("%+v: %+v, want %s: %s", c.spec, broken, c.fields, c.rules)
		}
	}
}

// TestJitter: it is the same for the same job and instant, within its bound, and
// spread over it.
func TestJitter(t *testing.T) {
	t.Parallel()
	due := at(t, "2026-01-01T00:00Z")
	var quarters [4]int
	for i := range 1000 {
		job := fmt.Sprint(i)
		j := schedule.Jitter(job, due, time.Hour)
		if j != schedule.Jitter(job, due, time.Hour) || j < 0 || j >= time.Hour {
			t.Fatal(j)
		}
		quarters[j/(15*time.Minute)]++
	}
	for _, n := range quarters {
		if n < 150 {
			t.Errorf("of 1000 jobs each quarter of the hour has %v", quarters)
		}
	}
	next := schedule.Jitter("a", due.Add(time.Hour), time.Hour)
	if schedule.Jitter("a", due, 0) != 0 || schedule.Jitter("a", due, time.Hour) == next {
		t.Error("none where none is set, and another for each instant")
	}
}

// TestYear holds the instants of expressions over a year with its changes of clocks
// against a plain reference: a clock that is read. It takes some zones;
// MILLRACE_LONG=1 takes 10,000 expressions over all zones, in each year from 2000 to
// 2040.
func TestYear(t *testing.T) {
	t.Parallel()
	zones, jobs, years, each, seed := zoneNames(t), 1, 1, 5, uint64(1)
	if os.Getenv("MILLRACE_LONG") != "" {
		jobs, years, each, seed = 10_000/len(zones)+1, 41, 1, uint64(time.Now().UnixNano())
	}
	t.Logf("%d zones, seed %d", len(zones), seed)
	random, checked := rand.New(rand.NewPCG(seed, 1)), 0
	for i := range years {
		for z := 0; z < len(zones); z += each {
			year := 2000 + (z/each+i)%41
			from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
			clock := readClock(t, zones[z], from, from.AddDate(1, 0, 0))
			for range jobs {
				checked += clock.check(t, zones[z], randomExpression(random))
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d instants", checked)
	if checked < 10_000 {
		t.Error("hardly anything was due")
	}
}

// zoneNames are the zones of the tz database that comes with Go.
func zoneNames(t *testing.T) (names []string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	all, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	for _, f := range all.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	if len(names) < 400 {
		t.Fatalf("only %d zones", len(names))
	}
	return names
}

// fields are the values that an expression names.
type fields struct {
	minutes, hours, days, months, weekdays map[int]bool // nil: all
	everyMinute, everyHour                 bool         // it begins with *
}

func randomExpression(r *rand.Rand) fields {
	some := func(least, most, n int) map[int]bool {
		set := map[int]bool{}
		for range n {
			set[least+r.IntN(most-least+1)] = true
		}
		return set
	}
	f := fields{minutes: some(0, 59, 1+r.IntN(3)), hours: some(0, 3, 1+r.IntN(3))} // clocks change at night
	switch r.IntN(6) {
	case 0:
		f.everyHour, f.hours = true, nil
	case 1:
		f.everyMinute, f.minutes = true, map[int]bool{0: true, 20: true, 40: true} // */20
	case 2:
		f.hours = some(0, 23, 4)
	}
	switch r.IntN(4) {
	case 0:
		f.days = some(1, 31, 12)
	case 1:
		f.weekdays = some(0, 6, 3)
	case 2:
		f.days, f.weekdays = some(1, 31, 6), some(0, 6, 2)
	}
	if r.IntN(3) == 0 {
		f.months = some(1, 12, 7)
	}
	return f
}

func (f fields) String() string {
	list := func(set map[int]bool) string {
		if set == nil {
			return "*"
		}
		var all []string
		for v := range set {
			all = append(all, fmt.Sprint(v))
		}
		return strings.Join(all, ",")
	}
	minutes := list(f.minutes)
	if f.everyMinute {
		minutes = "*/20"
	}
	return strings.Join([]string{minutes, list(f.hours), list(f.days), list(f.months), list(f.weekdays)}, " ")
}

func (f fields) names(wall time.Time) bool {
	in := func(set map[int]bool, v int) bool { return set == nil || set[v] }
	day, weekday := in(f.days, wall.Day()), in(f.weekdays, int(wall.Weekday()))
	today := day && weekday
	if f.days != nil && f.weekdays != nil {
		today = day || weekday
	}
	return today && in(f.months, int(wall.Month())) && in(f.hours, wall.Hour()) && in(f.minutes, wall.Minute())
}

// reading is what the clock of a zone shows at an instant, and for how many minutes
// it runs evenly from there.
type reading struct {
	at, shows time.Time
	minutes   int
}

// readClock reads a clock every quarter of an hour, and every minute of a quarter in
// which it changes.
func readClock(t *testing.T, zone string, from, to time.Time) (all clock) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	read := func(at time.Time) time.Time {
		l := at.In(loc)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	for at := from; at.Before(to); at = at.Add(15 * time.Minute) {
		shows := read(at)
		if read(at.Add(14 * time.Minute)).Equal(shows.Add(14 * time.Minute)) {
			all = append(all, reading{at, shows, 15})
			continue
		}
		for m := range time.Duration(15) {
			all = append(all, reading{at.Add(m * time.Minute), read(at.Add(m * time.Minute)), 1})
		}
	}
	return all
}

type clock []reading

// due lists the instants of an expression: the clock runs, and whatever it reaches
// for the first time, or jumps over, counts. An expression that begins with * counts
// what the clock shows.
func (c clock) due(f fields) (all []time.Time) {
	reached := c[0].shows
	for _, r := range c {
		if f.everyHour || f.everyMinute {
			reached = r.shows
		}
		for ; reached.Before(r.shows); reached = reached.Add(time.Minute) {
			if f.names(reached) {
				all = append(all, r.at)
				reached = r.shows.Add(time.Minute) // with what is named for the change itself
				break
			}
		}
		for m := range time.Duration(r.minutes) {
			shows := r.shows.Add(m * time.Minute)
			if !shows.Before(reached) && f.names(shows) {
				all = append(all, r.at.Add(m*time.Minute))
			}
		}
		if end := r.shows.Add(time.Duration(r.minutes) * time.Minute); end.After(reached) {
			reached = end
		}
	}
	return all
}

func (c clock) check(t *testing.T, zone string, f fields) int {
	t.Helper()
	text := f.String()
	r := compile(t, schedule.Spec{Cron: text, Zone: zone})
	want := c.due(f)
	// Both know what the clock showed before they begin: nothing changes on the first day of a year.
	from, last := c[0].at.Add(-time.Nanosecond), c[len(c)-1].at.Add(time.Duration(c[len(c)-1].minutes)*time.Minute)
	for i, at := 0, r.Next(from); ; i, at = i+1, r.Next(at) {
		ends := at.IsZero() || !at.Before(last)
		if ends && i == len(want) {
			return len(want)
		}
		if ends || i >= len(want) || !at.Equal(want[i]) {
			t.Errorf("%q in %s: instant %d is %s, want %v", text, zone, i, at, want[min(i, len(want)):min(i+1, len(want))])
			return i
		}
	}
}

// FuzzExpression: no text breaks the parser, and what it takes has instants that
// follow each other at whole minutes.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "*/5 1-4,22-2/3 L W#5 jan-FEB mon", "@daily", "0 0 29 2 *", "5,59 */7 31 4,6 ?", "@every 1m",
		"0-59/61 0 1 1 7", "TZ= * * * *", "H H * * *", "-1 - , / *",
	} {
		f.Add(text, "Europe/Berlin", int64(1_774_700_000))
	}
	f.Fuzz(func(t *testing.T, text, zone string, unix int64) {
		r, broken := schedule.Spec{Cron: text, Zone: zone}.Compile()
		if (r == nil) == (broken == nil) {
			t.Fatal(r, broken)
		}
		if text == "" || r == nil {
			return
		}
		before := time.Unix(unix%(1<<32), 0)
		for range 3 {
			next := r.Next(before)
			if !next.After(before) || next.Second()+next.Nanosecond() != 0 && before.Year() > 1972 {
				t.Fatalf("%q in %s: after %s comes %s", text, zone, before, next)
			}
			before = next
		}
	})
}

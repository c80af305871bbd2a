package schedule

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // zones must not depend on what the machine has installed

	"github.com/netresearch/go-cron"

	"github.com/millrace-io/millrace/schemas/item"
)

// Bounds of a schedule.
const (
	MinInterval   = time.Minute
	MaxInterval   = 366 * 24 * time.Hour
	MaxExpression = 255 // bytes
)

// Spec is a schedule as people give it: an interval with its anchor, or an
// expression with its zone.
type Spec struct {
	Interval time.Duration // in whole minutes; 0 where there is an expression
	Anchor   time.Time     // the first instant at which the interval is due
	Cron     string        // minute, hour, day of the month, month, day of the week; or @daily and its like
	Zone     string        // of the expression, by its name in the tz database; empty is UTC
}

// Recurring is when a job is due. It is safe for concurrent use.
type Recurring struct {
	interval time.Duration
	anchor   time.Time
	cron     *expression
}

// Compile reads a schedule, or returns the rules that it breaks.
func (s Spec) Compile() (*Recurring, []item.Invalid) {
	if s.Cron == "" {
		return s.compileInterval()
	}
	var broken []item.Invalid
	add := func(field, code, rule string) {
		broken = append(broken, item.Invalid{Field: field, Code: code, Rule: rule})
	}
	if s.Interval != 0 {
		add("interval_minutes", "exclusive", "must not be given beside cron")
	}
	zone, err := Zone(s.Zone)
	if err != nil {
		add("timezone", "timezone", err.Error())
	}
	e, err := parse(s.Cron, zone)
	if err != nil {
		add("cron", "cron", err.Error())
	}
	if broken != nil {
		return nil, broken
	}
	return &Recurring{cron: e}, nil
}

func (s Spec) compileInterval() (*Recurring, []item.Invalid) {
	switch {
	case s.Zone != "":
		return nil, []item.Invalid{{Field: "timezone", Code: "exclusive", Rule: "belongs to cron: an interval has none"}}
	case s.Interval < MinInterval || s.Interval > MaxInterval || s.Interval%time.Minute != 0:
		return nil, []item.Invalid{{
			Field: "interval_minutes", Code: "range",
			Rule: fmt.Sprintf("must be from %d to %d whole minutes", MinInterval/time.Minute, MaxInterval/time.Minute),
		}}
	case s.Anchor.Year() < 1970 || s.Anchor.Year() > 2200: // less than a Duration
		return nil, []item.Invalid{{Field: "anchor", Code: "range", Rule: "must be in the years 1970 to 2200"}}
	}
	return &Recurring{interval: s.Interval, anchor: s.Anchor.UTC()}, nil
}

// Zone finds a zone by its name in the tz database. Empty is UTC; Local, which
// differs from machine to machine, is none.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("must be a name of the tz database, such as Europe/Berlin: there is no %q", name)
	}
	return zone, nil
}

// Next is the first instant after another at which the job is due, in the zone of
// its schedule; zero: it never is again.
func (r *Recurring) Next(after time.Time) time.Time {
	if r.cron != nil {
		return r.cron.next(after)
	}
	if after.Before(r.anchor) {
		return r.anchor
	}
	return r.anchor.Add((after.Sub(r.anchor)/r.interval + 1) * r.interval)
}

// Run is an instant at which a job will be due.
type Run struct {
	At time.Time // in the zone of the schedule
	// Shift is how far the clocks of the zone are set ahead between the run before
	// and this one; below 0: back.
	Shift time.Duration
}

// Upcoming returns the next runs after an instant, at most n.
func (r *Recurring) Upcoming(after time.Time, n int) []Run {
	var runs []Run
	if r.cron != nil {
		after = after.In(r.cron.zone)
	}
	for before := after; len(runs) < n; {
		at := r.Next(before)
		if at.IsZero() {
			break
		}
		runs = append(runs, Run{At: at, Shift: offset(at) - offset(before.In(at.Location()))})
		before = at
	}
	return runs
}

// Jitter is how long a job waits beyond an instant at which it is due: less than
// most, and the same for the same job and instant.
func Jitter(job string, due time.Time, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", job, due.UnixMicro())
	x := h.Sum64() // the last bytes that were hashed reach the upper bits by these alone
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return time.Duration((x ^ x>>32) % uint64(most))
}

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// expression is a cron expression. The library is asked about times of day without
// a zone, and so never about a change of clocks: its rules there differ with the
// hour and the length of the change.
type expression struct {
	spec cron.Schedule
	zone *time.Location
	wild bool // rule 4
}

// searchYears finds the 29th of February over a century without a leap year.
const searchYears = 9

var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor |
	cron.DowOrDom).WithMaxSearchYears(searchYears)

func parse(text string, zone *time.Location) (*expression, error) {
	switch {
	case len(text) > MaxExpression:
		return nil, fmt.Errorf("must be at most %d bytes", MaxExpression)
	case strings.Contains(text, "TZ="):
		return nil, fmt.Errorf("must not name a zone: timezone does")
	case strings.HasPrefix(text, "@every"):
		return nil, fmt.Errorf("must not be an interval: interval_minutes is")
	}
	text = strings.ToLower(text) // no name that the library knows has capitals
	const form = "must be five fields such as 30 6 * * mon-fri, or one of @hourly, @daily, @weekly, @monthly, @yearly: "
	spec, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf(form+"%w", err)
	}
	if spec.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("must name a day that there is: no month has such a day")
	}
	e := &expression{spec: spec, zone: zone, wild: text == "@hourly"}
	fields := strings.Fields(text)
	for _, field := range fields[:min(2, len(fields))] {
		e.wild = e.wild || strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?")
	}
	return e, nil
}

// next walks over the stretches of time between changes of the zone's clocks. In
// each the wall clock runs evenly.
func (e *expression) next(after time.Time) time.Time {
	after = after.In(e.zone)
	at, from := after, wall(after)
	if !e.wild {
		from = later(from, e.shown(after))
	}
	for {
		end := changeAfter(at)
		found := e.spec.Next(from)
		if found.IsZero() {
			return time.Time{}
		}
		if due := at.Add(found.Sub(wall(at))); end.IsZero() || due.Before(end) {
			return due
		}
		before := wall(at).Add(end.Sub(at)) // what the clock would show at the change
		at = end.In(e.zone)
		const first = time.Nanosecond // the library looks after an instant
		switch {
		case e.wild:
			from = wall(at).Add(-first)
		case found.Before(wall(at)): // rule 2
			return at
		default: // rule 3
			from = later(later(before, wall(at)), e.shown(at)).Add(-first)
		}
	}
}

// shown is the latest time of day that the clock has shown at changes in the days
// before an instant; zero where there were none.
func (e *expression) shown(at time.Time) (latest time.Time) {
	for start, _ := at.ZoneBounds(); !start.IsZero() && !start.After(at) && at.Sub(start) < 48*time.Hour; {
		last := start.Add(-time.Nanosecond).In(e.zone)
		latest = later(latest, wall(last))
		start, _ = last.ZoneBounds()
	}
	return latest
}

// changeAfter is an instant up to which the clocks of a zone do not change; zero:
// they never do. On the last day of a leap year, from 2038 on, ZoneBounds takes the
// day before for the end: no clock is changed on that day.
func changeAfter(at time.Time) time.Time {
	_, end := at.ZoneBounds()
	if !end.IsZero() && !end.After(at) {
		end = at.Add(time.Hour)
	}
	return end
}

// wall is what the wall clock shows, as a time in UTC.
func wall(t time.Time) time.Time { return t.UTC().Add(offset(t)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

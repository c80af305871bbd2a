package window

import (
	"fmt"
	"time"
	_ "time/tzdata" // zones must not depend on what the machine has installed
)

// Periods, as the API names them.
const (
	Today  = "today" // since the last midnight of the zone
	Custom = "custom"
)

// MaxSpan bounds a custom window.
const MaxSpan = 5 * 366 * 24 * time.Hour

// rolling holds the periods that end now.
var rolling = map[string]time.Duration{
	"24h": 24 * time.Hour,
	"7d":  7 * 24 * time.Hour,
	"30d": 30 * 24 * time.Hour,
}

// Request is what a caller asks for, as text. Empty fields are absent.
type Request struct {
	Period, From, To, TZ string
}

// Invalid says which rule a request breaks.
type Invalid struct {
	Field string // name of the parameter
	Code  string // stable name of the rule
	Rule  string // the rule, for people
}

func (e *Invalid) Error() string { return e.Field + ": " + e.Rule }

// Spec is a valid request.
type Spec struct {
	period   string
	zone     string
	loc      *time.Location
	from, to time.Time // of a custom window
}

// Ahead is how far beyond To a live window reaches in the tables: about as far
// as what is held in memory does.
const Ahead = 31 * 24 * time.Hour

// Window is a span of time, in UTC.
type Window struct {
	Period, Zone string
	From, To     time.Time
	Live         bool // holds everything from From on
}

// Parse checks a request. Its error is an *Invalid.
func Parse(r Request) (Spec, error) {
	zone, loc, err := parseZone(r.TZ)
	if err != nil {
		return Spec{}, err
	}
	if r.From != "" || r.To != "" {
		if r.Period != "" {
			return Spec{}, &Invalid{"period", "period_or_times", "must be absent where from and to are given"}
		}
		from, to, err := parseSpan(r.From, r.To)
		if err != nil {
			return Spec{}, err
		}
		return Spec{period: Custom, zone: zone, from: from, to: to}, nil
	}
	period := r.Period
	if period == "" {
		period = Today
	}
	if _, ok := rolling[period]; !ok && period != Today {
		return Spec{}, &Invalid{"period", "period_unknown", "must be today, 24h, 7d or 30d, or absent where from and to are given"}
	}
	return Spec{period: period, zone: zone, loc: loc}, nil
}

// Live tells whether the window moves with the clock.
func (s Spec) Live() bool { return s.period != Custom }

// Key names the spec: specs of one key have the same window at all times.
func (s Spec) Key() string {
	if !s.Live() {
		return s.from.Format(time.RFC3339Nano) + "/" + s.to.Format(time.RFC3339Nano) + " " + s.zone
	}
	return s.period + " " + s.zone
}

// At returns the window as it is at a moment. Windows of periods begin and
// end at whole milliseconds.
func (s Spec) At(now time.Time) Window {
	w := Window{Period: s.period, Zone: s.zone, From: s.from, To: s.to}
	if !s.Live() {
		return w
	}
	w.Live = true
	w.To = now.UTC().Truncate(time.Millisecond)
	if s.period == Today {
		w.From = startOfDay(w.To, s.loc)
	} else {
		w.From = w.To.Add(-rolling[s.period])
	}
	return w
}

func parseSpan(fromText, toText string) (from, to time.Time, err error) {
	if from, err = parseTime("from", fromText); err != nil {
		return from, to, err
	}
	if to, err = parseTime("to", toText); err != nil {
		return from, to, err
	}
	switch {
	case !from.Before(to):
		err = &Invalid{"to", "span_order", "must be later than from"}
	case to.Sub(from) > MaxSpan:
		err = &Invalid{"to", "span_length", fmt.Sprintf("must be at most %d days after from", MaxSpan/(24*time.Hour))}
	}
	return from, to, err
}

func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, &Invalid{field, "missing", "is required where the other of from and to is given"}
	}
	t, err := ParseTime(text)
	if err != nil {
		return time.Time{}, &Invalid{field, "time_format", err.Error()}
	}
	return t, nil
}

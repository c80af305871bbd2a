package reads

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // zones must not depend on what the machine has installed

	"github.com/millrace-io/millrace/schemas/event"
)

// A window of a period is live: it holds everything from From on, and To only says when it
// was looked at. That is also what a fast clock has set ahead: by a few seconds, or by days
// where the clock of the broker was wrong as well, which is what events are held to. A
// custom window is [From, To); without a To of its own it ends at the time of the request.
//
// Windows read no clock but the one that is handed to them; the time zone database is built
// in.

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

// WindowTimes are the parameters of a window beside its period.
type WindowTimes struct {
	From string `query:"from" doc:"As for the funnel" example:"2026-02-01T00:00:00Z"`
	To   string `query:"to" doc:"As for the funnel" example:"2026-02-10T00:00:00Z"`
	TZ   string `query:"tz" doc:"As for the funnel" example:"Europe/Berlin"`
}

// WindowRequest is what a caller asks for, as text, and when. Empty fields are absent.
type WindowRequest struct {
	Period, From, To, TZ string
	Now                  time.Time // needed where From stands without To
}

// WindowSpec is a valid request.
type WindowSpec struct {
	period   string
	zone     string
	loc      *time.Location
	from, to time.Time // of a custom window
	open     bool      // a custom window that ends at the time of the request
}

// WindowAhead is how far beyond To a live window reaches in the tables: about as far
// as what is held in memory does.
const WindowAhead = 31 * 24 * time.Hour

// Window is a span of time, in UTC.
type Window struct {
	Period, Zone string
	From, To     time.Time
	Live         bool // holds everything from From on
}

// End is before what time the events of a window happened, as tables have them: a
// live one also has those that a fast clock has set ahead.
func (w Window) End() time.Time {
	if w.Live {
		return w.To.Add(WindowAhead)
	}
	return w.To
}

// ParseWindow checks a request. Its error joins an Invalid for each field that breaks a rule.
func ParseWindow(r WindowRequest) (WindowSpec, error) {
	s := WindowSpec{period: r.Period}
	var faults []error
	var err error
	if s.zone, s.loc, err = parseZone(r.TZ); err != nil {
		faults = append(faults, err)
	}
	if r.From != "" || r.To != "" {
		if r.Period != "" {
			faults = append(faults, &event.Invalid{Field: "period", Code: "period_or_times", Rule: "must be absent where from or to is given"})
		}
		s.period, s.open = Custom, r.To == ""
		faults = append(faults, s.parseSpan(r)...)
	} else {
		if s.period == "" {
			s.period = Today
		}
		if _, ok := rolling[s.period]; !ok && s.period != Today {
			faults = append(faults, &event.Invalid{
				Field: "period", Code: "period_unknown",
				Rule: "must be today, 24h, 7d or 30d, or absent where from is given",
			})
		}
	}
	if len(faults) > 0 {
		return WindowSpec{}, errors.Join(faults...)
	}
	return s, nil
}

// Live tells whether the window holds everything from its begin on.
func (s WindowSpec) Live() bool { return s.period != Custom }

// Moves tells whether the window depends on the time of the request.
func (s WindowSpec) Moves() bool { return s.Live() || s.open }

// Key names the spec: specs of one key have the same window at all times.
func (s WindowSpec) Key() string {
	if s.open {
		return s.from.Format(time.RFC3339Nano) + "/now " + s.zone
	}
	if !s.Live() {
		return s.from.Format(time.RFC3339Nano) + "/" + s.to.Format(time.RFC3339Nano) + " " + s.zone
	}
	return s.period + " " + s.zone
}

// At returns the window as it is at a moment. What depends on that begins and
// ends at whole milliseconds.
func (s WindowSpec) At(now time.Time) Window {
	w := Window{Period: s.period, Zone: s.zone, From: s.from, To: s.to}
	if s.Moves() {
		w.To = now.UTC().Truncate(time.Millisecond)
	}
	if !s.Live() {
		return w
	}
	w.Live = true
	if s.period == Today {
		w.From = startOfDay(w.To, s.loc)
	} else {
		w.From = w.To.Add(-rolling[s.period])
	}
	return w
}

// parseSpan reads the times of a custom window. Without an end it lasts until it
// is looked at.
func (s *WindowSpec) parseSpan(r WindowRequest) (faults []error) {
	read := func(field, text string, at *time.Time) {
		var err error
		if *at, err = ParseMoment(text); err != nil {
			faults = append(faults, &event.Invalid{Field: field, Code: "time_format", Rule: err.Error()})
		}
	}
	if r.From == "" {
		faults = append(faults, &event.Invalid{Field: "from", Code: "missing", Rule: "is required where to is given"})
	} else {
		read("from", r.From, &s.from)
	}
	end, field := r.Now, "from"
	if !s.open {
		read("to", r.To, &s.to)
		end, field = s.to, "to"
	}
	if len(faults) > 0 {
		return faults
	}
	switch days := MaxSpan / (24 * time.Hour); {
	case !s.from.Before(end) && s.open:
		return []error{&event.Invalid{Field: field, Code: "span_order", Rule: "must lie in the past where to is not given"}}
	case !s.from.Before(end):
		return []error{&event.Invalid{Field: field, Code: "span_order", Rule: "must be later than from"}}
	case end.Sub(s.from) > MaxSpan && s.open:
		return []error{&event.Invalid{Field: field, Code: "span_length", Rule: fmt.Sprintf("must be at most %d days ago where to is not given", days)}}
	case end.Sub(s.from) > MaxSpan:
		return []error{&event.Invalid{Field: field, Code: "span_length", Rule: fmt.Sprintf("must be at most %d days after from", days)}}
	}
	return nil
}

package schedule

import (
	"slices"
	"time"
)

// Window is when a source may be crawled. The zero value is always open.
type Window struct {
	Start, End int            // hours from 0 to 23; the same: all day
	Days       []time.Weekday // on which it begins; none: on all
	Zone       *time.Location // nil: UTC
}

// Open tells whether the window is open at an instant (rule 5).
func (w Window) Open(at time.Time) bool {
	if w.Zone == nil {
		at = at.UTC()
	} else {
		at = at.In(w.Zone)
	}
	hour, day := at.Hour(), at.Weekday()
	switch {
	case w.Start == w.End:
	case w.Start < w.End:
		if hour < w.Start || hour >= w.End {
			return false
		}
	case hour < w.End:
		day = (day + 6) % 7
	case hour < w.Start:
		return false
	}
	return len(w.Days) == 0 || slices.Contains(w.Days, day)
}

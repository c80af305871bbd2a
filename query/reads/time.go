package reads

import (
	"errors"
	"strings"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/instant"
)

var errRange = errors.New("must lie between the years 1970 and 2261")

// ParseMoment reads an RFC 3339 time that nanoseconds in 64 bits can hold. The
// error is the rule that the text breaks.
func ParseMoment(text string) (time.Time, error) {
	t, err := instant.Parse(text)
	if err != nil {
		return time.Time{}, err
	}
	if t.Year() < 1970 || t.Year() > 2261 {
		return time.Time{}, errRange
	}
	return t, nil
}

// parseZone reads the name of a time zone. Names that depend on the machine
// ("Local") or that reach for files are not zones.
func parseZone(name string) (string, *time.Location, error) {
	if name == "" || name == "UTC" {
		return "UTC", time.UTC, nil
	}
	invalid := &event.Invalid{Field: "tz", Code: "zone_unknown", Rule: "must be a time zone of the IANA database, such as Europe/Berlin"}
	if len(name) > 64 || name == "Local" || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\.\x00") {
		return "", nil, invalid
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return "", nil, invalid
	}
	return name, loc, nil
}

// startOfDay returns the first moment of the day that now lies in. That is
// midnight, but for zones whose clocks jump over midnight: there it is the
// moment of the jump. Where midnight comes twice it is the first.
func startOfDay(now time.Time, loc *time.Location) time.Time {
	year, month, day := now.In(loc).Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	// No offset is above 16 hours. Walk the stretches of one offset that
	// come into question, in the order of time.
	for at := midnight.Add(-16 * time.Hour).In(loc); ; {
		_, offset := at.Zone()
		start, end := at.ZoneBounds()
		first := midnight.Add(-time.Duration(offset) * time.Second).In(loc)
		if first.Before(start) {
			first = start
		}
		if y, m, d := first.Date(); (end.IsZero() || first.Before(end)) && y == year && m == month && d == day {
			return first.UTC()
		}
		if end.IsZero() || end.After(now) {
			return now // not reached: now itself lies in the day
		}
		at = end
	}
}

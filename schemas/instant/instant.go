// Package instant reads the times that enter Millrace, and keeps all of them within what
// JSON can say: the years 1 to 9999, in UTC. A time such as 9999-12-31T23:59:59-23:59 is
// valid RFC 3339 and of the year 10000 in UTC, which time.Time refuses to encode, so that
// one stored value would break each answer that holds it.
//
// Nothing else parses times; internal/lint holds that. Some fields have narrower rules,
// which they check in addition.
package instant

import (
	"encoding/json"
	"errors"
	"time"
)

var (
	errForm  = errors.New(`must be an RFC 3339 time, such as 2026-02-10T14:30:00Z (in a URL, "+" is written %2B)`)
	errRange = errors.New("must be within the years 1 to 9999, in UTC")
	errDay   = errors.New(`must be a day such as 2026-02-10`)
)

// maxText is the length of the longest text that is read as a time, in bytes.
const maxText = 64

var (
	first = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	// last is the last microsecond, which is also what Postgres can hold.
	last = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

// Parse reads an RFC 3339 time and returns it in UTC. The error is the rule that the text
// breaks.
func Parse(text string) (time.Time, error) {
	if len(text) > maxText {
		return time.Time{}, errForm
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, errForm
	}
	return check(t)
}

// ParseDay reads a day of the calendar and returns its midnight in UTC.
func ParseDay(text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, errDay
	}
	return check(t)
}

// FromMicro is the time so many microseconds after 1970.
func FromMicro(micros int64) (time.Time, error) { return check(time.UnixMicro(micros)) }

func check(t time.Time) (time.Time, error) {
	t, clamped := Clamp(t)
	if clamped {
		return time.Time{}, errRange
	}
	return t, nil
}

// Clamp returns the time in UTC, or the nearest one within the years 1 to 9999 if it lies
// outside: for times that an older release stored.
func Clamp(t time.Time) (within time.Time, clamped bool) {
	switch t = t.UTC(); {
	case t.Before(first):
		return first, true
	case t.Year() > 9999:
		return last, true
	}
	return t, false
}

// Time is a time in a document or a parameter that somebody sent.
type Time struct {
	time.Time
	outside bool
}

// New is the time t.
func New(t time.Time) Time {
	t, clamped := Clamp(t)
	return Time{t, clamped}
}

// Check returns the rule that the time breaks. UnmarshalJSON cannot name the field that
// holds the time, and leaves this to whoever can.
func (t Time) Check() error {
	if t.outside {
		return errRange
	}
	return nil
}

// UnmarshalJSON reads an RFC 3339 time. It clamps a time outside of the years 1 to 9999,
// which Check then reports.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return errForm
	}
	if text == nil {
		return nil
	}
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil || len(*text) > maxText {
		return errForm
	}
	*t = New(at)
	return nil
}

// UnmarshalText reads an RFC 3339 time: of a parameter, whose name the caller knows.
func (t *Time) UnmarshalText(text []byte) (err error) {
	t.Time, err = Parse(string(text))
	return err
}

package item

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-io/millrace/schemas/event"
)

// Limits on what callers may ask for.
const (
	MaxWorker   = 200  // bytes
	MaxError    = 4096 // bytes; what is longer is cut
	MaxProgress = 500  // bytes
	MaxPriority = 9
	MaxLease    = 24 * 60 * 60      // seconds
	MaxDelay    = 30 * 24 * 60 * 60 // seconds
)

// Invalid says which rule a field breaks.
type Invalid = event.Invalid

// CheckWorker holds what a worker's name may be. It may be empty.
func CheckWorker(name string) error {
	switch {
	case len(name) > MaxWorker:
		return &Invalid{Field: "worker", Code: "length", Rule: fmt.Sprintf("must be at most %d bytes", MaxWorker)}
	case !utf8.ValidString(name):
		return &Invalid{Field: "worker", Code: "utf8", Rule: "must be valid UTF-8"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &Invalid{Field: "worker", Code: "control_character", Rule: "must not contain control characters"}
	}
	return nil
}

// CheckLease holds how long an item may be taken for, in seconds.
func CheckLease(seconds float64) error {
	if !(seconds >= 1 && seconds <= MaxLease) {
		return &Invalid{Field: "lease_s", Code: "range", Rule: fmt.Sprintf("must be from 1 to %d seconds", MaxLease)}
	}
	return nil
}

// CheckDelay holds how long an item may be held back, in seconds.
func CheckDelay(seconds float64) error {
	if !(seconds >= 0 && seconds <= MaxDelay) {
		return &Invalid{Field: "delay_s", Code: "range", Rule: fmt.Sprintf("must be from 0 to %d seconds", MaxDelay)}
	}
	return nil
}

// Seconds is a duration of so many seconds, as callers give and read them.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// CutError makes a text of an error that a column can hold: valid, without
// zero bytes, and of MaxError bytes at most.
func CutError(text string) string { return cut(text, MaxError) }

// CutProgress makes such a text of what a worker says that it is at, of MaxProgress
// bytes at most.
func CutProgress(text string) string { return cut(text, MaxProgress) }

func cut(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// CheckProgress holds what a worker says that it is at.
func CheckProgress(text string) error {
	if text != CutProgress(text) {
		return &Invalid{Field: "progress", Code: "text", Rule: fmt.Sprintf("must be at most %d bytes of UTF-8 without zero bytes", MaxProgress)}
	}
	return nil
}

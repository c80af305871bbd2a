package shard

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on what callers may ask for.
const (
	MaxFilename = 255  // bytes
	MaxShards   = 4096 // of one registration
	MaxWorker   = 200  // bytes
	MaxError    = 4096 // bytes; what is longer is cut
	MaxPriority = 9
	MaxLease    = 24 * 60 * 60      // seconds
	MaxDelay    = 30 * 24 * 60 * 60 // seconds
)

// Invalid says which rule a field breaks.
type Invalid struct{ Field, Code, Rule string }

func (e *Invalid) Error() string { return e.Field + ": " + e.Rule }

// CheckFilename holds that a name stays one segment of a path and of a
// subject's text.
func CheckFilename(name string) error {
	switch {
	case name == "":
		return &Invalid{"filename", "missing", "is required"}
	case len(name) > MaxFilename:
		return &Invalid{"filename", "length", fmt.Sprintf("must be at most %d bytes", MaxFilename)}
	case !utf8.ValidString(name):
		return &Invalid{"filename", "utf8", "must be valid UTF-8"}
	case strings.ContainsAny(name, `/\`):
		return &Invalid{"filename", "slash", "must not contain slashes"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &Invalid{"filename", "control_character", "must not contain control characters"}
	case name == "." || name == "..":
		return &Invalid{"filename", "dots", "must not be . or .."}
	}
	return nil
}

// CheckShards holds what a registration may name.
func CheckShards(shards []int64) error {
	switch {
	case len(shards) == 0:
		return &Invalid{"shards", "empty", "must name at least one shard"}
	case len(shards) > MaxShards:
		return &Invalid{"shards", "too_many", fmt.Sprintf("must name at most %d shards", MaxShards)}
	}
	for i, s := range shards {
		if CheckShard(s) != nil {
			return &Invalid{fmt.Sprintf("shards[%d]", i), "range", shardRule}
		}
	}
	return nil
}

var shardRule = fmt.Sprintf("must be a whole number from 0 to %d", math.MaxInt32)

// CheckShard holds that a shard is a number that the table can hold.
func CheckShard(s int64) error {
	if s < 0 || s > math.MaxInt32 {
		return &Invalid{"shard", "range", shardRule}
	}
	return nil
}

// CheckWorker holds what a worker's name may be. It may be empty.
func CheckWorker(name string) error {
	switch {
	case len(name) > MaxWorker:
		return &Invalid{"worker", "length", fmt.Sprintf("must be at most %d bytes", MaxWorker)}
	case !utf8.ValidString(name):
		return &Invalid{"worker", "utf8", "must be valid UTF-8"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &Invalid{"worker", "control_character", "must not contain control characters"}
	}
	return nil
}

// CheckLease holds how long an item may be taken for, in seconds.
func CheckLease(seconds float64) error {
	if !(seconds >= 1 && seconds <= MaxLease) {
		return &Invalid{"lease_s", "range", fmt.Sprintf("must be from 1 to %d seconds", MaxLease)}
	}
	return nil
}

// CheckDelay holds how long an item may be held back, in seconds.
func CheckDelay(seconds float64) error {
	if !(seconds >= 0 && seconds <= MaxDelay) {
		return &Invalid{"delay_s", "range", fmt.Sprintf("must be from 0 to %d seconds", MaxDelay)}
	}
	return nil
}

// CheckQueue finds a stage that has a queue by its name.
func CheckQueue(name string) (Stage, error) {
	s, ok := ParseStage(name)
	if !ok || !s.HasQueue() {
		return 0, &Invalid{"stage", "stage_unknown", "must be shard-splitter, shard-worker or mysql-sender"}
	}
	return s, nil
}

// CutError makes a text of an error that a column can hold: valid, without
// zero bytes, and of MaxError bytes at most.
func CutError(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > MaxError {
		text = strings.ToValidUTF8(text[:MaxError], "")
	}
	return text
}

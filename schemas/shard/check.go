package shard

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-io/millrace/schemas/item"
)

// Limits on what callers may ask for.
const (
	MaxFilename = 255  // bytes
	MaxShards   = 4096 // of one registration
)

// Suffix ends the names of files on disk. What stands before it is the filename.
const Suffix = ".event-ingest.txt"

// Filename returns the filename that a caller means, who may have named the file
// on disk.
func Filename(name string) (string, error) {
	name = strings.TrimSuffix(name, Suffix)
	return name, CheckFilename(name)
}

// CheckFilename holds that a name stays one segment of a path and of a
// subject's text.
func CheckFilename(name string) error {
	switch {
	case name == "":
		return invalid("filename", "missing", "is required")
	case len(name) > MaxFilename:
		return invalid("filename", "length", fmt.Sprintf("must be at most %d bytes", MaxFilename))
	case !utf8.ValidString(name):
		return invalid("filename", "utf8", "must be valid UTF-8")
	case strings.ContainsAny(name, `/\`):
		return invalid("filename", "slash", "must not contain slashes")
	case strings.ContainsFunc(name, unicode.IsControl):
		return invalid("filename", "control_character", "must not contain control characters")
	case name == "." || name == "..":
		return invalid("filename", "dots", "must not be . or ..")
	}
	return nil
}

// Shards returns the shards of a registration, each once, in the order in which
// they are named first.
func Shards(named []int64) ([]int32, error) {
	shards, seen := make([]int32, 0, min(len(named), MaxShards)), make(map[int64]bool, min(len(named), MaxShards))
	for i, s := range named {
		switch {
		case CheckShard(s) != nil:
			return nil, invalid(fmt.Sprintf("shards[%d]", i), "range", shardRule)
		case seen[s]:
			continue
		case len(shards) == MaxShards:
			return nil, invalid("shards", "too_many", fmt.Sprintf("must name at most %d shards", MaxShards))
		}
		seen[s] = true
		shards = append(shards, int32(s))
	}
	if len(shards) == 0 {
		return nil, invalid("shards", "empty", "must name at least one shard")
	}
	return shards, nil
}

var shardRule = fmt.Sprintf("must be a whole number from 0 to %d", math.MaxInt32)

// CheckShard holds that a shard is a number that the table can hold.
func CheckShard(s int64) error {
	if s < 0 || s > math.MaxInt32 {
		return invalid("shard", "range", shardRule)
	}
	return nil
}

// CheckQueue finds a stage that has a queue by its name.
func CheckQueue(name string) (Stage, error) {
	s, ok := ParseStage(name)
	if !ok || !s.HasQueue() {
		return 0, invalid("stage", "stage_unknown", "must be shard-splitter, shard-worker or mysql-sender")
	}
	return s, nil
}

func invalid(field, code, rule string) *item.Invalid {
	return &item.Invalid{Field: field, Code: code, Rule: rule}
}

package job

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Result is what a worker says of a run that has succeeded; nil: it does not say it.
type Result struct {
	Articles *int32
	Duration *float64 // seconds
}

// maxDuration is the longest duration of a run, in seconds.
var maxDuration = (365 * 24 * time.Hour).Seconds()

// ReadResult reads the result of a run, a JSON object with the members articles_count and
// duration_seconds, each of which may be left out or null. Other members are the worker's own.
// It also returns the rules that the result breaks; a member that breaks one counts as left out.
func ReadResult(text []byte) (r Result, rules []string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return r, []string{"the result must be a JSON object"}
	}
	number := func(name, rule string, fits func(float64) bool) *float64 {
		value, given := members[name]
		var n *float64
		if err := json.Unmarshal(value, &n); given && (err != nil || n != nil && !fits(*n)) {
			rules = append(rules, fmt.Sprintf("%s must be %s, and is %s", name, rule, shortened(value)))
			return nil
		}
		return n
	}
	whole := func(n float64) bool { return n >= 0 && n <= math.MaxInt32 && n == math.Trunc(n) }
	rule := fmt.Sprintf("a whole number from 0 to %d", math.MaxInt32)
	if n := number("articles_count", rule, whole); n != nil {
		articles := int32(*n)
		r.Articles = &articles
	}
	rule = fmt.Sprintf("a number of seconds from 0 to %.0f", maxDuration)
	r.Duration = number("duration_seconds", rule, func(n float64) bool { return n >= 0 && n <= maxDuration })
	return r, rules
}

// shortened is a value of a result as a message can hold it.
func shortened(value json.RawMessage) string {
	if len(value) > 40 {
		return string(value[:40]) + "..."
	}
	return string(value)
}

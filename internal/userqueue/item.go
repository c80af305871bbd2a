package userqueue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/item"
)

// Bounds of what callers may ask for.
const (
	MaxItems   = 10_000   // of one request
	MaxPayload = 64 << 10 // bytes
	MaxKey     = 255      // bytes
	MaxBackoff = 100      // waits

	MaxQueues    = 1000
	MaxPerMaker  = 100 // queues that one maker without the scope admin may have
	MaxPerGroup  = 10_000
	MaxRate      = 10_000 // starts
	MaxRatePer   = 86_400 // seconds
	MaxRetention = 365 * 86_400
	MaxLive      = 10_000_000 // items of a queue
)

// EnqueueItem is an item that is to be added.
type EnqueueItem struct {
	Payload  json.RawMessage `json:"payload,omitempty"` // none: null
	Key      string          `json:"key,omitempty"`     // unique among the live items of the queue
	Group    string          `json:"group,omitempty"`
	Priority int16           `json:"priority,omitempty"`                  // 0 to 9
	RunAt    *instant.Time   `json:"run_at,omitempty" format:"date-time"` // not before
}

// NewItem is an item of a system that adds items itself.
type NewItem struct {
	EnqueueItem
	Attempts int32 `json:"attempts,omitempty"` // that were made before
	Allowed  int32 `json:"allowed,omitempty"`  // attempts after which it is dead, with those; 0: as the queue says
	// Trace is the span within which the moves of the item are, see stream.TraceOf; empty: that of the caller.
	Trace string `json:"-"`
}

// enqueue is stream.Enqueue as it is read.
type enqueue struct {
	Queue string        `json:"queue"`
	Items []EnqueueItem `json:"items"`
}

var names = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckSettings returns all rules that the settings of a new queue break.
func CheckSettings(v queue.Settings) (broken []item.Invalid) {
	add := func(field, code, rule string) {
		broken = append(broken, item.Invalid{Field: field, Code: code, Rule: rule})
	}
	if !names.MatchString(v.Name) {
		add("name", "name",
			"must be 1 to 63 lower-case letters, digits, hyphens and underscores, and begin with a letter or digit")
	}
	if v.MaxAttempts < 0 || v.MaxAttempts > 1_000_000 {
		add("max_attempts", "range", "must be from 0 to 1000000")
	}
	if v.LeaseS != 0 && item.CheckLease(v.LeaseS) != nil {
		add("lease_s", "range", fmt.Sprintf("must be from 1 to %d seconds", item.MaxLease))
	}
	if len(v.BackoffS) > MaxBackoff {
		add("backoff_s", "too_many", fmt.Sprintf("must be at most %d waits", MaxBackoff))
	}
	for i, s := range v.BackoffS {
		if item.CheckDelay(s) != nil {
			add(fmt.Sprintf("backoff_s[%d]", i), "range", fmt.Sprintf("must be from 0 to %d seconds", item.MaxDelay))
		}
	}
	return append(broken, CheckLimits(queue.Set{
		Concurrency: &v.Concurrency, PerGroup: &v.PerGroup, RatePerKey: &v.RatePerKey, RetentionS: &v.RetentionS,
		MaxItems: &v.MaxItems,
	})...)
}

// CheckLimits returns all rules that limits break; those that are nil break none.
func CheckLimits(v queue.Set) (broken []item.Invalid) {
	within := func(field string, value *float64, least, most float64) {
		if value != nil && !(*value >= least && *value <= most) {
			rule := fmt.Sprintf("must be from %.0f to %.0f", least, most)
			broken = append(broken, item.Invalid{Field: field, Code: "range", Rule: rule})
		}
	}
	number := func(n *int) *float64 {
		if n == nil {
			return nil
		}
		f := float64(*n)
		return &f
	}
	within("concurrency", number(v.Concurrency), 0, 1_000_000)
	within("concurrency_per_group", number(v.PerGroup), 0, MaxPerGroup)
	if v.RatePerKey != nil {
		within("rate_per_key.count", number(&v.RatePerKey.Count), 0, MaxRate)
		if v.RatePerKey.Count != 0 {
			within("rate_per_key.per_s", &v.RatePerKey.PerS, 1, MaxRatePer)
		}
	}
	within("retention_s", v.RetentionS, 0, MaxRetention)
	within("max_items", number(v.MaxItems), 1, MaxLive)
	return broken
}

// CheckRequest returns all rules that a request breaks which adds items. Decoding has
// replaced what no text can hold in their keys and groups.
func CheckRequest(text []byte, items []EnqueueItem) []item.Invalid {
	broken := CheckItems(items)
	if len(broken) == 0 && !storable(text) {
		broken = append(broken, unstorable("items"))
	}
	return broken
}

// CheckItems returns all rules that items break.
func CheckItems(items []EnqueueItem) (broken []item.Invalid) {
	if len(items) == 0 || len(items) > MaxItems {
		return []item.Invalid{{Field: "items", Code: "length", Rule: fmt.Sprintf("must be 1 to %d items", MaxItems)}}
	}
	for i, it := range items {
		add := func(field, code, rule string) {
			broken = append(broken, item.Invalid{Field: fmt.Sprintf("items[%d].%s", i, field), Code: code, Rule: rule})
		}
		broken = append(broken, CheckPayload(fmt.Sprintf("items[%d].payload", i), it.Payload)...)
		for _, v := range []struct{ field, value string }{{"key", it.Key}, {"group", it.Group}} {
			if rule := CheckText(fmt.Sprintf("items[%d].%s", i, v.field), v.value); rule != nil {
				broken = append(broken, *rule)
			}
		}
		if it.Priority < 0 || it.Priority > item.MaxPriority {
			add("priority", "range", fmt.Sprintf("must be from 0 to %d", item.MaxPriority))
		}
		if it.RunAt != nil && it.RunAt.Check() != nil {
			add("run_at", "range", it.RunAt.Check().Error())
		}
	}
	return broken
}

// CheckPayload returns the rule that a payload breaks, if any. None is null.
func CheckPayload(field string, payload json.RawMessage) []item.Invalid {
	switch {
	case len(payload) > MaxPayload:
		return []item.Invalid{{
			Field: field, Code: "length",
			Rule: fmt.Sprintf("must be at most %d bytes of JSON", MaxPayload),
		}}
	case len(payload) > 0 && !json.Valid(payload):
		return []item.Invalid{{Field: field, Code: "json", Rule: "must be JSON"}}
	case !utf8.Valid(payload):
		return []item.Invalid{{Field: field, Code: "utf8", Rule: "must be valid UTF-8"}}
	case !storable(payload):
		return []item.Invalid{unstorable(field)}
	}
	return nil
}

func unstorable(field string) item.Invalid {
	return item.Invalid{
		Field: field, Code: "character",
		Rule: `must not contain the character \u0000 or half of a surrogate pair, such as \ud800: no text of Postgres can`,
	}
}

// storable tells whether Postgres can hold every character that valid JSON escapes.
func storable(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return true
		}
		if text[i+1] != 'u' {
			text = text[i+2:]
			continue
		}
		unit := escaped(text[i:])
		text = text[i+len(`\u0000`):]
		switch {
		case unit == 0:
			return false
		case utf16.IsSurrogate(unit):
			if utf16.DecodeRune(unit, escaped(text)) == unicode.ReplacementChar {
				return false
			}
			text = text[len(`\u0000`):]
		}
	}
}

// escaped is what the escape \uXXXX stands for with which a text begins, or -1.
func escaped(text []byte) rune {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:len(`\u0000`)]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// CheckText returns the rule that a key or a group breaks, or nil.
func CheckText(field, value string) *item.Invalid {
	if len(value) <= MaxKey && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl) {
		return nil
	}
	return &item.Invalid{
		Field: field, Code: "text",
		Rule: fmt.Sprintf("must be at most %d bytes of UTF-8 without control characters", MaxKey),
	}
}

package source

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/instant"
)

// Types are all types of events.
var Types = []string{Created, Updated, Deleted, Enabled, Disabled}

// Told is an event as it was read from a stream, whoever published it.
type Told struct {
	ID        uuid.UUID
	Type      string
	SourceID  uuid.UUID
	Timestamp time.Time
	says      *Draft
}

// Says has the fields that the event gives, which keep all rules: all fields of a
// source that was created, and none of one that was deleted.
func (t Told) Says() *Draft { return t.says }

// ReadEvent reads an event. It passes over what it does not know, in the envelope
// and in the payload, and returns the first rule that the event breaks.
func ReadEvent(text []byte) (Told, *Invalid) {
	if !utf8.Valid(text) {
		return Told{}, &Invalid{Code: "utf8", Rule: "must be valid UTF-8"}
	}
	var e struct {
		ID        string          `json:"event_id"`
		Type      string          `json:"event_type"`
		SourceID  string          `json:"source_id"`
		Timestamp string          `json:"timestamp"`
		Payload   json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return Told{}, &Invalid{Code: "json", Rule: "must be one JSON object in the envelope of events: " + err.Error()}
	}
	t, ok := Told{Type: e.Type, says: new(Draft)}, false
	if t.ID, ok = ParseID(e.ID); !ok || t.ID == uuid.Nil {
		return t, bad(BadID("event_id"))
	}
	if !slices.Contains(Types, e.Type) {
		return t, &Invalid{
			Field: "event_type", Code: "event_type_unknown",
			Rule: "must be one of " + strings.Join(Types, ", "),
		}
	}
	if t.SourceID, ok = ParseID(e.SourceID); !ok || t.SourceID == uuid.Nil {
		return t, bad(BadID("source_id"))
	}
	at, err := instant.Parse(e.Timestamp)
	if err != nil || at.Year() < 1970 {
		return t, &Invalid{
			Field: "timestamp", Code: "time",
			Rule: "must be an RFC 3339 time between the years 1970 and 9999 in UTC, such as 2026-01-29T10:30:00Z",
		}
	}
	t.Timestamp = at
	return t, t.payload(e.Payload)
}

func bad(rule Invalid) *Invalid { return &rule }

// payload reads what an event says of the fields of its source.
func (t *Told) payload(text json.RawMessage) *Invalid {
	switch t.Type {
	case Created:
		given := map[string]json.RawMessage{}
		if rule := decode(text, &given, "payload"); rule != nil {
			return rule
		}
		for _, name := range Names {
			if value, ok := given[name]; ok && !unsaid(name, value) {
				t.says.Set(name, value)
			}
		}
		return first("payload", t.says.BrokenAlone())
	case Updated:
		return t.update(text)
	case Enabled, Disabled:
		t.says.Set("enabled", json.RawMessage(map[bool]string{true: "true", false: "false"}[t.Type == Enabled]))
	}
	return nil
}

// unsaid tells whether a publisher writes a field so that says nothing of it.
func unsaid(name string, value json.RawMessage) bool {
	switch name {
	case "rate_limit", "max_depth":
		return string(value) == "0"
	case "selectors":
		return isNull(value)
	case "priority":
		return string(value) == `""`
	}
	return false
}

func (t *Told) update(text json.RawMessage) *Invalid {
	var u struct {
		ChangedFields []string                   `json:"changed_fields"`
		Current       map[string]json.RawMessage `json:"current"`
	}
	if rule := decode(text, &u, "payload"); rule != nil {
		return rule
	}
	if u.ChangedFields == nil {
		return &Invalid{Field: "payload.changed_fields", Code: "missing", Rule: "is required"}
	}
	for _, name := range u.ChangedFields {
		if !slices.Contains(Names, name) || t.says.Given(name) {
			continue
		}
		value, ok := u.Current[name]
		if !ok {
			return &Invalid{
				Field: "payload.current." + name, Code: "missing",
				Rule: "is required: changed_fields names it",
			}
		}
		t.says.Set(name, value)
	}
	return first("payload.current", t.says.Broken())
}

func decode(text json.RawMessage, into any, field string) *Invalid {
	if len(text) == 0 || text[0] != '{' {
		return &Invalid{Field: field, Code: "type", Rule: "must be a JSON object"}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &Invalid{Field: field, Code: "type", Rule: "must be in the form of its event_type: " + err.Error()}
	}
	return nil
}

// first returns the first of the rules that are broken, below a member of the event.
func first(member string, broken []Invalid) *Invalid {
	if len(broken) == 0 {
		return nil
	}
	rule := broken[0]
	rule.Field = strings.TrimSuffix(member+"."+rule.Field, ".")
	return &rule
}

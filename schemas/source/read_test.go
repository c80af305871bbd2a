package source

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

const (
	eventID  = `"event_id":"550e8400-e29b-41d4-a716-446655440001"`
	sourceID = `"source_id":"550e8400-e29b-41d4-a716-446655440000"`
	when     = `"timestamp":"2026-01-29T10:30:00Z"`
)

func envelope(kind, payload string) string {
	return `{` + eventID + `,"event_type":"` + kind + `",` + sourceID + `,` + when + `,"payload":` + payload + `}`
}

// TestReadEvent: what events of any publisher say, and by which field and rule those
// are refused that break one.
func TestReadEvent(t *testing.T) {
	for text, want := range map[string]string{
		// the examples of the contract
		envelope("SOURCE_CREATED", `{"name":"Example News","url":"https://example.com","rate_limit":10,`+
			`"max_depth":3,"enabled":true,"selectors":{"title":"h1"},"priority":"normal"}`): "name url rate_limit " +
			"max_depth enabled selectors priority",
		envelope("SOURCE_UPDATED", `{"changed_fields":["rate_limit","max_depth"],"previous":{"rate_limit":10,`+
			`"max_depth":3},"current":{"rate_limit":5,"max_depth":2}}`): "rate_limit max_depth",
		envelope("SOURCE_DELETED", `{"name":"Example News","deletion_reason":"user_requested"}`): "",
		envelope("SOURCE_DISABLED", `{"reason":"rate_limit_exceeded","disabled_by":"system"}`):   "enabled",
		envelope("SOURCE_ENABLED", `null`): "enabled",

		// what says nothing, and what is of no concern
		envelope("SOURCE_CREATED", `{"name":"a","url":"https://e.com","rate_limit":0,"max_depth":0,"selectors":null,`+
			`"priority":"","enabled":false,"owner":"x"}`): "name url enabled",
		envelope("SOURCE_UPDATED", `{"changed_fields":["owner","name","name"],"current":{"owner":1,"name":"b",`+
			`"url":7}}`): "name",
		envelope("SOURCE_UPDATED", `{"changed_fields":[]}`): "",

		``:         "!=json",
		`[]`:       "!=json",
		"\"\xff\"": "!=utf8",
		`{}`:       "!event_id=uuid",
		`{"event_id":"00000000-0000-0000-0000-000000000000"}`: "!event_id=uuid",
		`{` + eventID + `}`:                                               "!event_type=event_type_unknown",
		`{` + eventID + `,"event_type":"SOURCE_MOVED"}`:                   "!event_type=event_type_unknown",
		`{` + eventID + `,"event_type":"SOURCE_DELETED","source_id":"1"}`: "!source_id=uuid",
		`{` + eventID + `,"event_type":"SOURCE_DELETED",` + sourceID +
			`}`: "!timestamp=time",
		`{` + eventID + `,"event_type":"SOURCE_DELETED",` + sourceID +
			`,"timestamp":"0001-01-01T00:00:00Z"}`: "!timestamp=time",
		`{` + eventID + `,"event_type":"SOURCE_DELETED",` + sourceID +
			`,"timestamp":"9999-12-31T23:59:59-23:59"}`: "!timestamp=time",
		`{` + eventID + `,"event_type":"SOURCE_DELETED",` + sourceID +
			`,"timestamp":"1970-01-01T00:00:00+14:00"}`: "!timestamp=time",
		`{` + eventID + `,"event_type":"SOURCE_DELETED",` + sourceID + `,"timestamp":1769682600}`: "!=json",
		`{` + eventID + `,"event_type":"SOURCE_CREATED",` + sourceID + `,` + when +
			`}`: "!payload=type",
		envelope("SOURCE_CREATED", `[]`):                                                           "!payload=type",
		envelope("SOURCE_CREATED", `{"url":"https://e.com"}`):                                      "!payload.name=missing",
		envelope("SOURCE_CREATED", `{"name":"a","url":"ftp://e.com"}`):                             "!payload.url=url",
		envelope("SOURCE_CREATED", `{"name":"a","url":"https://e.com","priority":"urgent"}`):       "!payload.priority=priority_unknown",
		envelope("SOURCE_CREATED", `{"name":"a","url":"https://e.com","rate_limit":-1}`):           "!payload.rate_limit=range",
		envelope("SOURCE_UPDATED", `{"current":{"name":"b"}}`):                                     "!payload.changed_fields=missing",
		envelope("SOURCE_UPDATED", `{"changed_fields":["name"],"current":{}}`):                     "!payload.current.name=missing",
		envelope("SOURCE_UPDATED", `{"changed_fields":["rate_limit"],"current":{"rate_limit":0}}`): "!payload.current.rate_limit=range",
		envelope("SOURCE_UPDATED", `{"changed_fields":"name","current":{"name":"b"}}`):             "!payload=type",
	} {
		e, rule := ReadEvent([]byte(text))
		var got string
		if rule != nil {
			got = "!" + rule.Field + "=" + rule.Code
		} else {
			got = strings.Join(e.Says().given, " ")
		}
		if got != want {
			t.Errorf("%s\nsays %q, want %q", text, got, want)
		}
	}
}

// TestReadsOwn: what Millrace tells of a change is read as what it was.
func TestReadsOwn(t *testing.T) {
	from := New()
	from.Name, from.URL, from.Selectors = "a", "https://example.com", json.RawMessage(`{"title":"h1"}`)
	to := from
	to.RateLimit, to.Enabled, to.Selectors = 7, false, json.RawMessage(`{"title":"h2"}`)
	changes := append([]Change{{Created, from}}, Changes(from, to, "why")...)
	now := New()
	for _, c := range append(changes, Change{Deleted, Deletion{"a", "why"}}) {
		want := Event{
			ID: uuid.New(), Type: c.Type, SourceID: uuid.New(), Timestamp: time.Now().UTC(),
			Payload: c.Payload,
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, rule := ReadEvent(text)
		if rule != nil {
			t.Fatalf("%s: %v", text, rule)
		}
		if got.ID != want.ID || got.Type != want.Type || got.SourceID != want.SourceID ||
			!got.Timestamp.Equal(want.Timestamp) {
			t.Errorf("%s is read as %+v", text, got)
		}
		now = got.Says().Over(now)
	}
	if changed := Changed(to, now); len(changed) > 0 {
		t.Errorf("%v differ from what was told", changed)
	}
}

// FuzzReadEvent: whatever is read breaks a rule, or gives fields that keep all rules.
func FuzzReadEvent(f *testing.F) {
	f.Add([]byte(envelope("SOURCE_CREATED", `{"name":"a","url":"https://e.com","selectors":{"a":[1.0e5]}}`)))
	f.Add([]byte(envelope("SOURCE_UPDATED", `{"changed_fields":["name"],"current":{"name":"b"}}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, rule := ReadEvent(text)
		if rule != nil {
			return
		}
		if broken := e.Says().Broken(); len(broken) > 0 || e.ID == uuid.Nil || e.SourceID == uuid.Nil {
			t.Fatalf("%q: %+v, %v", text, e, broken)
		}
	})
}

package event

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The published schema states the limits that Decode enforces.
func TestSchemaStatesTheRules(t *testing.T) {
	schema, err := Schema(stages(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Required   []string
		Properties map[string]struct {
			MaxLength int
			Maximum   int
			Pattern   string
			Enum      []string
		}
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	for field, limit := range map[string]int{
		"article_url": MaxURL, "content_url": MaxURL, "canonical_url": MaxURL, "source_name": MaxName,
		"service_name": MaxName, "trace_id": MaxName, "idempotency_key": MaxKey,
	} {
		if got := s.Properties[field].MaxLength; got != limit {
			t.Errorf("%s: maxLength %d, want %d", field, got, limit)
		}
	}
	if !reflect.DeepEqual(s.Properties["stage"].Enum, stages(t).Names()) {
		t.Errorf("stages are %v", s.Properties["stage"].Enum)
	}
	for _, limit := range []string{"131072", "65536"} {
		if !strings.Contains(string(text), limit) {
			t.Errorf("the limit %s is not stated", limit)
		}
	}
	var r Record
	for _, example := range s.Examples {
		if err := Decode(example, &r); err != nil {
			t.Errorf("example: %v", err)
		}
	}
	typ := reflect.TypeFor[Event]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if _, ok := s.Properties[name]; !ok {
			t.Errorf("%s is not in the schema", name)
		}
	}
}

// What a pattern of the schema refuses, Decode refuses; of the vectors that
// are valid, the schema refuses none.
func TestSchemaPatterns(t *testing.T) {
	schema, err := Schema(stages(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors(t) {
		var fields map[string]any
		if !v.Valid || json.Unmarshal([]byte(v.Event), &fields) != nil {
			continue
		}
		for name, property := range schema["properties"].(map[string]any) {
			pattern, _ := property.(map[string]any)["pattern"].(string)
			if text, ok := fields[name].(string); ok && pattern != "" &&
				!regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("%s: %s %q does not match %s", v.Name, name, text, pattern)
			}
		}
	}
}

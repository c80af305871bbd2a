package event

import (
	"strings"
	"testing"
)

// TestTraceID: a trace is found in the metadata, too, in whatever order the
// fields stand. The event's own wins, and what could be none is passed over.
func TestTraceID(t *testing.T) {
	for fields, want := range map[string]string{
		`"trace_id":"a"`:                                             "a",
		`"metadata":{"trace_id":"b"}`:                                "b",
		`"metadata":{"trace_id":"b"},"trace_id":"a"`:                 "a",
		`"trace_id":"a","metadata":{"trace_id":"b"}`:                 "a",
		`"trace_id":null,"metadata":{"trace_id":"b"}`:                "b",
		`"metadata":{"trace_id":"b"},"metadata":{}`:                  "",
		`"metadata":{"trace_id":"\u0062"}`:                           "b",
		`"metadata":{"trace_id":7}`:                                  "",
		`"metadata":{"trace_id":"a\nb"}`:                             "",
		`"metadata":{"deep":{"trace_id":"b"}}`:                       "",
		`"metadata":{"trace_id":"` + strings.Repeat("x", 257) + `"}`: "",
	} {
		var r Record
		if invalid := Decode([]byte(`{"article_url":"https://example.com/","source_name":"s","stage":"crawled",`+
			`"occurred_at":"2026-02-10T14:30:00Z","service_name":"c",`+fields+`}`), &r); invalid != nil {
			t.Errorf("%.60s: %v", fields, invalid)
		}
		if string(r.TraceID) != want {
			t.Errorf("%.60s: %q, want %q", fields, r.TraceID, want)
		}
	}
}

package event

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzMarkBackfilled: what is marked as backfilled is the same event, and is
// marked, unless it was as large as it may be.
func FuzzMarkBackfilled(f *testing.F) {
	for _, metadata := range []string{
		"null", "{}", `{"backfilled":false,"n":1e400}`, `{"backfilled":false,"backfilled":0}`,
		`{"is_reclassification":true,"model_version":"\u2028<"}`,
		`{"model_version":"\ud800","is_reclassification":true}`, `{"a":[1e999,{"b":"<\u2028>"}]}`,
		`{"a":"` + strings.Repeat("<", MaxMetadata-30) + `"}`,
	} {
		f.Add([]byte(`{"article_url":"https://example.com/1","source_name":"s","stage":"crawled",` +
			`"occurred_at":"2026-02-10T14:30:00.5Z","service_name":"a","new":{"a<b":1e400},"metadata":` + metadata +
			`}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var before, after Record
		if Decode(text, &before) != nil {
			return
		}
		if Decode(text, &after) != nil {
			t.Fatal("decodes only once")
		}
		marked, invalid := MarkBackfilled(text, &after)
		if invalid != nil {
			if invalid.Code == "size" || invalid.Code == "metadata_size" {
				return
			}
			t.Fatalf("%q: %v", text, invalid)
		}
		if !after.Meta.Backfilled || after.Identity() != before.Identity() || after.OccurredAt != before.OccurredAt ||
			!bytes.Equal(after.SourceName, before.SourceName) || !bytes.Equal(after.TraceID, before.TraceID) ||
			after.URLHash != before.URLHash ||
			after.Meta.IsDuplicate != before.Meta.IsDuplicate || !bytes.Equal(after.Meta.Channel, before.Meta.Channel) {
			t.Fatalf("%q becomes %q", text, marked)
		}
	})
}

package client

import (
	"bytes"
	"testing"

	"github.com/millrace-io/millrace/schemas/event"
)

// FuzzMarkBackfilled: an event that has waited too long is marked, and stays
// the same event.
func FuzzMarkBackfilled(f *testing.F) {
	for _, metadata := range []string{"null", "{}", `{"backfilled":false,"n":1e400}`, `{"is_reclassification":true,"model_version":"\u2028<"}`} {
		f.Add([]byte(`{"article_url":"https://example.com/1","source_name":"s","stage":"crawled","occurred_at":"2026-02-10T14:30:00.5Z","service_name":"a","metadata":` + metadata + `}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var before, after event.Record
		if event.Decode(text, &before) != nil {
			return
		}
		marked, err := markBackfilled(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if invalid := event.Decode(marked, &after); invalid != nil {
			if invalid.Code == "size" || invalid.Code == "metadata_size" {
				return // it was as large as it may be
			}
			t.Fatalf("%q becomes %q: %v", text, marked, invalid)
		}
		if !after.Meta.Backfilled || after.Identity() != before.Identity() || after.OccurredAt != before.OccurredAt || !bytes.Equal(after.SourceName, before.SourceName) {
			t.Fatalf("%q becomes %q", text, marked)
		}
	})
}

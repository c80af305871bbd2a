package history

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// FuzzRow: a row of whatever text becomes events of its time that are marked as
// backfilled and decode, the same each time, or is refused.
func FuzzRow(f *testing.F) {
	f.Add("7", "https://example.com/1", "", "example", `["a"]`, `"x"`, int64(1_770_000_000), uint8(1))
	f.Add("7' OR 1", "HTTPS://example.com/ü", "https://example.com/c", "", `"[1"`, "1e999", int64(-1), uint8(2))
	f.Add("\x00", "", "x", "\xff", "{}", "null", int64(1<<40), uint8(0))
	f.Fuzz(func(t *testing.T, id, url, canonical, source, topics, value string, sec int64, which uint8) {
		if !json.Valid([]byte(topics)) || !json.Valid([]byte(value)) {
			return // Postgres writes these
		}
		table := Tables()[int(which)%len(Tables())]
		row := func() *Row {
			r := &Row{
				ID: id, At: time.Unix(sec%(1<<36), 0).UTC(), URL: url, CanonicalURL: canonical,
				SourceName: source, Crawled: 2, Indexed: 1,
			}
			r.fields = map[string]string{
				"topics": topics, "channel": value, "quality_score": value,
				"model_version": value,
			}
			fields(r.fields).list("topics")
			return r
		}
		expand := func() (all []Event, err error) {
			err = NewExpander(table).Expand(row(), func(string) bool { return true }, func(e Event) bool {
				all = append(all, e)
				return true
			})
			return all, err
		}
		all, err := expand()
		again, errAgain := expand()
		if len(all) != len(again) || (err == nil) != (errAgain == nil) {
			t.Fatalf("%d events, %v, and then %d, %v", len(all), err, len(again), errAgain)
		}
		for i, e := range all {
			var r event.Record
			if invalid := event.Decode(e.Message.Data, &r); invalid != nil || !r.Meta.Backfilled ||
				r.URLHash != e.URLHash || string(r.Stage) != e.Stage || !r.Time().Equal(e.At) {
				t.Fatalf("%q: %v", e.Message.Data, invalid)
			}
			if string(again[i].Message.Data) != string(e.Message.Data) {
				t.Fatalf("%q, and then %q", e.Message.Data, again[i].Message.Data)
			}
		}
	})
}

package pipeline_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/schemas/event"
)

// TestUpgrade holds invariant 2 over the upgrade from a release in which channels
// had no identities of their own: its key store is filled anew, and an event that
// it has counted is known by the identity that it has now.
func TestUpgrade(t *testing.T) {
	b := newBench(t)
	e := event.Event{
		ArticleURL: "https://example.com/upgrade", SourceName: "source", ServiceName: "publisher", Stage: "published",
		OccurredAt: time.Now().Add(-time.Minute).Truncate(time.Second), Metadata: map[string]any{"channel": "a"},
	}
	m, text := b.message(e)
	b.publish(m.Subject, text)
	stop := b.start(nil)
	b.reach(1)
	stop()
	bare := e
	bare.Metadata = nil
	old, _ := b.message(bare)
	must(t, b.db.Exec(
		t.Context(), "ALTER TABLE "+engine.Rows("events")+" UPDATE identity = toFixedString(?, 16) WHERE 1 SETTINGS mutations_sync = 2",
		string(old.Event.Identity[:]),
	))
	keys, err := pebble.Open(filepath.Join(b.dir, "keys"), &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	must(t, err)
	for _, key := range [][]byte{[]byte("format"), m.Event.Identity[:]} {
		must(t, keys.Delete(key, pebble.Sync))
	}
	must(t, keys.Set(old.Event.Identity[:], []byte{1, 0, 0, 0, 0, 0, 0, 0}, pebble.Sync))
	must(t, keys.Close())

	defer b.start(nil)()
	b.publish(m.Subject, text) // a repeat
	e.Metadata["channel"] = "b"
	other, err := json.Marshal(e)
	must(t, err)
	b.publish(m.Subject, other) // was never counted
	b.reach(3)
	b.check()
}

package work

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestReasons: whatever clients give as a reason, a column of
// Postgres can hold what is kept of it. One that it refused would come again
// and again (invariant 6).
func TestReasons(t *testing.T) {
	for _, said := range []string{"no\x00such", "not \xff UTF-8", strings.Repeat("long", item.MaxError)} {
		parts := split(queue.Settings{}, stream.WorkMoveBatch{Moves: []stream.WorkMove{{Kind: stream.MoveFail, Error: said}}})
		if c := parts[stream.MoveFail].commands[0]; c.Error == "" || c.Error != item.CutError(said) {
			t.Errorf("of %.20q is kept %.20q, %d bytes", said, c.Error, len(c.Error))
		}
	}
}

// TestAdmit: a request that Postgres would refuse is refused by itself, and
// not together with those of others.
func TestAdmit(t *testing.T) {
	for _, c := range []struct {
		worker, stage string
		ok            bool
	}{
		{"w", "shard-worker", true},
		{"w\x00", "shard-worker", false},
		{"w\n", "shard-worker", false},
	} {
		data, err := json.Marshal(stream.WorkMoveBatch{
			Worker: c.worker, Stage: c.stage, Lease: minLease,
			Moves: []stream.WorkMove{{ID: 1, Generation: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admit(data); (err == nil) != c.ok {
			t.Errorf("worker %q at %s: %v", c.worker, c.stage, err)
		}
	}
}

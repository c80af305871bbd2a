package fold

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestDamagedBucket: revisions of which the server skips the last one in silence are an
// error that says so, and nobody waits for them for ever.
func TestDamagedBucket(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(t.Context(), stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"the first text", "the last text"} {
		if _, err := kv.PutString(t.Context(), "funnel.0", value); err != nil {
			t.Fatal(err)
		}
	}
	srv.Overwrite("KV_"+stream.Checkpoints, "the last text", "the lost text")
	if kv, err = srv.JetStream().KeyValue(t.Context(), stream.Checkpoints); err != nil {
		t.Fatal(err)
	}
	_, err = History(t.Context(), kv, "funnel.0")
	if err == nil || !strings.Contains(err.Error(), "one is damaged") {
		t.Errorf("History: error %v, want one that says that a revision is damaged", err)
	}
}

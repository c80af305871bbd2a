package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestDamagedBucket: revisions of which the server skips the last one in silence are an
// error that says so, and nobody waits for them for ever.
func TestDamagedBucket(t *testing.T) {
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
	srv.Stop()
	files, err := filepath.Glob(filepath.Join(srv.Dir(), "jetstream", "*", "streams", "KV_"+stream.Checkpoints, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatal("the bucket has no files: ", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.Replace(data, []byte("the last text"), []byte("the lost text"), 1)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	srv.Start()
	if kv, err = srv.JetStream().KeyValue(t.Context(), stream.Checkpoints); err != nil {
		t.Fatal(err)
	}
	_, err = History(t.Context(), kv, "funnel.0")
	if err == nil || !strings.Contains(err.Error(), "one is damaged") {
		t.Errorf("History: error %v, want one that says that a revision is damaged", err)
	}
}

package mirror

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestDamagedCheckpoint: where the server skips the last checkpoint in silence, the mirror
// says that it waits for one that is damaged.
func TestDamagedCheckpoint(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(t.Context(), stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	for id, value := range []string{"the first text", "the last text"} {
		if _, err := kv.PutString(t.Context(), slots.Group{ID: uint32(id)}.Key(), value); err != nil {
			t.Fatal(err)
		}
	}
	srv.Overwrite("KV_"+stream.Checkpoints, "the last text", "the lost text")

	_, m, _ := newWorld(t, Limits{})
	done := make(chan error, 1)
	nc := srv.Connect()
	go func() { done <- m.Run(t.Context(), nc, srv.JetStream()) }()
	for end := time.Now().Add(time.Minute); !strings.Contains(m.Err().Error(), "one is damaged"); {
		select {
		case err := <-done:
			t.Fatalf("Run has ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("Err: %v, want one that says that a checkpoint is damaged", m.Err())
		}
	}
}

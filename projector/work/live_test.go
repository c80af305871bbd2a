package work

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestLive: a comparison knows which messages there are, whatever was removed
// (invariant 7).
func TestLive(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	if err := stream.EnsureWork(t.Context(), js, []string{"s"}, stream.WorkConfig{}); err != nil {
		t.Fatal(err)
	}
	leader := &session{Service: &Service{js: js}}
	look := func(want ...uint64) {
		t.Helper()
		l, err := leader.live(t.Context())
		if err != nil || !slices.Equal(l.seqs, want) {
			t.Fatalf("%+v, not %v: %v", l, want, err)
		}
	}
	look()
	for range 9 {
		if _, err := js.Publish(t.Context(), stream.WorkSubject("s"), nil); err != nil {
			t.Fatal(err)
		}
	}
	look(1, 2, 3, 4, 5, 6, 7, 8, 9)
	for _, seq := range []uint64{7, 4, 1, 8} {
		if err := handout.Remove(t.Context(), js, seq); err != nil {
			t.Fatal(err)
		}
	}
	look(2, 3, 5, 6, 9)
	s, err := js.Stream(t.Context(), stream.Work)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(100)); err != nil {
		t.Fatal(err)
	}
	look()
}

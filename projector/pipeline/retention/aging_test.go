package retention

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestFoldedOnly: what is old goes when every slot group has folded it, and not
// before, however old it is; the broker itself drops nothing.
func TestFoldedOnly(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	s, err := js.Stream(t.Context(), stream.Events)
	must(t, err)
	if age := s.CachedInfo().Config.MaxAge; age != 0 {
		t.Fatalf("the broker drops events by their age of %s", age)
	}
	kv, err := js.KeyValue(t.Context(), stream.Checkpoints)
	must(t, err)
	_, err = assignment.AgreeLayout(t.Context(), kv, 2)
	must(t, err)
	for i := range 50 {
		_, err := js.Publish(t.Context(), fmt.Sprintf("events.crawled.%02x", i), nil)
		must(t, err)
	}
	fold := func(group uint32, r funnel.Checkpoint) {
		value, err := json.Marshal(r)
		must(t, err)
		_, err = kv.Put(t.Context(), slots.Group{ID: group}.Key(), value)
		must(t, err)
	}
	before := uint64(1)
	begins := func(maxAge time.Duration, want uint64) {
		t.Helper()
		k, err := NewAging(AgingConfig{MaxAge: maxAge}, js, slog.New(slog.DiscardHandler))
		must(t, err)
		must(t, k.Round(t.Context())) // the first one only looks
		if s, err = js.Stream(t.Context(), stream.Events); err != nil || s.CachedInfo().State.FirstSeq != before {
			t.Fatalf("the first round has removed messages, or %v", err)
		}
		must(t, k.Round(t.Context()))
		before = want
		s, err := js.Stream(t.Context(), stream.Events)
		must(t, err)
		if got := s.CachedInfo().State; got.FirstSeq != want || got.LastSeq != 50 {
			t.Fatalf("the stream holds %d to %d, not from %d on", got.FirstSeq, got.LastSeq, want)
		}
	}
	begins(1, 1)
	fold(0, funnel.Checkpoint{From: 40, To: 45})
	begins(1, 1) // the other group has not begun
	fold(1, funnel.Checkpoint{From: 3, To: 3, CaughtUp: 20})
	begins(time.Hour, 1)
	begins(1, 21)
	begins(1, 21)
	fold(1, funnel.Checkpoint{From: 60, To: 60})
	begins(1, 41)
}

// TestFirstSince: the search ends where messages begin to be young enough, also
// where some have been removed, and where the clock was set back.
func TestFirstSince(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	s, err := js.Stream(t.Context(), stream.Events)
	must(t, err)
	times := map[uint64]time.Time{}
	for i := range uint64(30) {
		_, err := js.Publish(t.Context(), "events.crawled.00", nil)
		must(t, err)
		m, err := s.GetMsg(t.Context(), i+1)
		must(t, err)
		times[i+1] = m.Time
	}
	for _, gone := range []uint64{7, 14, 15, 16, 30} {
		must(t, s.DeleteMsg(t.Context(), gone))
	}
	_, err = s.Info(t.Context())
	must(t, err)
	for _, tc := range []struct {
		upto  uint64
		since time.Time
		want  uint64
	}{
		{30, times[1], 1},
		{30, times[11], 11},
		{30, times[29], 29},
		{5, times[11], 6},
		{30, times[29].Add(time.Hour), 30},
		{99, times[29].Add(time.Hour), 30},
	} {
		got, err := firstSince(t.Context(), s, tc.upto, tc.since)
		must(t, err)
		if got != tc.want {
			t.Errorf("up to %d since %s: %d, want %d", tc.upto, tc.since, got, tc.want)
		}
	}
}

func TestRefusesNegativeTimes(t *testing.T) {
	var js jetstream.JetStream
	if _, err := NewAging(AgingConfig{MaxAge: -1}, js, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a negative age is accepted")
	}
}

package assignment

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestSilentWorker: a projector does not count among the others while one of
// its groups says nothing, and does again a lease after.
func TestSilentWorker(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(t.Context(), stream.Checkpoints)
	check(err)
	l, err := AgreeLayout(t.Context(), kv, 2)
	check(err)
	const lease = 3 * time.Second // longer than a slow machine stalls
	s := newShare(New(Config{Lease: lease}, srv.Connect(), slog.New(slog.DiscardHandler)), kv, "a")
	s.open = l.Current()
	at := &worker{group: slots.Group{ID: s.open[0].ID}, pulse: new(fold.Pulse)}
	s.workers[at.group.ID] = at
	other := NewRegister(kv, "b", time.Hour)
	counts := func() bool {
		_, err := other.Beat(t.Context(), 1) // it holds the other group
		check(err)
		check(s.balance(t.Context()))
		_, err = kv.Get(t.Context(), "member.a")
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	if counts() {
		t.Error("it counts though its group is silent")
	}
	at.pulse.Beat()
	if counts() {
		t.Error("it counts at once after the silence")
	}
	for end := time.Now().Add(20 * lease); !counts(); time.Sleep(lease / 100) {
		if time.Now().After(end) {
			t.Fatal("it does not count though its group is alive")
		}
		at.pulse.Beat()
	}
}

package work_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestDeletedQueue: a queue that has the name of a deleted one hands out none of its
// messages, and takes no answer to them for its own (invariant 4). The consumer goes
// with the queue.
func TestDeletedQueue(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	add := func(payload string) {
		t.Helper()
		if _, err := client.Enqueue(t.Context(), h.nc, "mail", client.NewItem{Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() {
		t.Helper()
		if _, err := s.Delete(t.Context(), "mail", true); err != nil {
			t.Fatal(err)
		}
		if err := h.hands.Drop(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
	}
	add("old")
	old := h.pullOwn("mail", 1)[0]
	add("old")
	h.until("2 messages", func() (string, bool) { return fmt.Sprint(h.messages()), h.messages() == 2 })
	remove()
	if made, err := s.Create(t.Context(), queue.Settings{Name: "mail", MaxAttempts: 5, LeaseS: 30}); err != nil ||
		!made {
		t.Fatal(made, err)
	}
	if err := h.hands.Ensure(t.Context(), "mail", h.ackWait); err != nil {
		t.Fatal(err)
	}
	add("new")
	fresh := h.pullOwn("mail", 1)[0]
	if it, err := stream.ParseQueueItem(fresh.Data()); err != nil || string(it.Payload) != `"new"` {
		t.Fatalf("%s was handed out, %v", it.Payload, err)
	}
	if err := errors.Join(old.Ack(), fresh.Ack()); err != nil {
		t.Fatal(err)
	}
	h.awaitOwn(s, "mail", "done", 1)
	remove()
	h.until("no consumer", func() (string, bool) {
		_, err := h.js.Consumer(t.Context(), stream.Work, "mail")
		return fmt.Sprint(err), errors.Is(err, jetstream.ErrConsumerNotFound)
	})
	h.until("no message", func() (string, bool) { return fmt.Sprint(h.messages()), h.messages() == 0 })
}

package pulls

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestLastItems: of items that come a few at a time, a worker that is known gets each soon, though many connections that it
// has not heard of ask for them, and are silent.
func TestLastItems(t *testing.T) {
	t.Parallel()
	s := start(t)
	honest := s.consumer(s.connect())
	s.add(1)
	s.take(honest, 1)
	for range 60 {
		nc := s.connect()
		inbox := nats.NewInbox()
		if _, err := nc.Subscribe(inbox, func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := nc.PublishRequest(nextSubject, inbox, []byte(`{"batch":1000}`)); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	const items = 10
	turns := uint64(0)
	for range items / 2 {
		time.Sleep(200 * time.Millisecond) // so that requests of others wait
		s.add(2)
		for range 2 {
			m := s.fetch(honest)
			turns += deliveries(t, m)
			if err := s.doubleAck(m); err != nil {
				t.Error(err)
			}
		}
	}
	// Each was handed to one that is silent, and may have been to one more where this machine is slow.
	if turns > 3*items {
		t.Errorf("%d items were delivered %d times", items, turns)
	}
}

// fetch asks for an item until there is one.
func (s *site) fetch(c jetstream.Consumer) jetstream.Msg {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		batch, err := c.Fetch(1, jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			s.t.Fatal(err)
		}
		for m := range batch.Messages() {
			return m
		}
	}
	s.t.Fatal("no item comes")
	return nil
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// recorder is a tape that runs when it is told to.
type recorder struct {
	*tape
	t      *testing.T
	server *natstest.Server
	js     jetstream.JetStream
	sent   int
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	server := natstest.Start(t, stream.Config{})
	r := &recorder{t: t, server: server, js: server.JetStream()}
	var err error
	r.tape, err = newTape(r.js, []string{server.URL()})
	must(t, err)
	t.Cleanup(r.close)
	return r
}

// start copies until stop is called.
func (r *recorder) start() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { r.run(ctx) })
	return func() { cancel(); ended.Wait() }
}

// publish goes on until each message is acknowledged. Repeats are dropped.
func (r *recorder) publish(n int) {
	r.t.Helper()
	for range n {
		r.sent++
		body := fmt.Sprint(r.sent)
		if !within(startLimit, func() bool {
			_, err := r.js.Publish(r.t.Context(), "events.crawled.00", []byte(body), jetstream.WithMsgID(body))
			return err == nil
		}) {
			r.t.Fatalf("message %s is not acknowledged", body)
		}
	}
}

// remove removes the messages before a sequence.
func (r *recorder) remove(before uint64) {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), stream.Events)
	must(r.t, err)
	must(r.t, s.Purge(r.t.Context(), jetstream.WithPurgeSequence(before)))
}

func (r *recorder) bodies() (found []string) {
	r.each(func(seq uint64, _ time.Time, body string) { found = append(found, fmt.Sprint(seq, " ", body)) })
	return found
}

// TestTape: what was on the stream is kept, whatever is removed and whoever
// dies.
func TestTape(t *testing.T) {
	r := newRecorder(t)
	stop := r.start()
	defer stop()
	r.publish(tapeBatch + 200)
	must(t, r.level(t.Context()))
	r.remove(tapeBatch)
	r.publish(10)
	must(t, r.level(t.Context()))
	r.server.Stop()
	r.server.Start()
	r.publish(5)
	if wrong := r.verify(t.Context()); len(wrong) > 0 {
		t.Error(wrong)
	}
	got := r.bodies()
	for i := range r.sent {
		if want := fmt.Sprint(i+1, " ", i+1); i >= len(got) || got[i] != want {
			t.Fatalf("%d messages of %d, %q is not among them", len(got), r.sent, want)
		}
	}
}

// TestTapeNotices: what was removed too early, what has changed and what is
// gone from the end are found, and old events that stay.
func TestTapeNotices(t *testing.T) {
	r := newRecorder(t)
	r.publish(5)
	stop := r.start()
	must(t, r.level(t.Context()))
	stop()
	r.publish(5)
	r.remove(9)
	defer r.start()()
	wrong := r.verify(t.Context())
	if len(wrong) != 1 || !strings.Contains(wrong[0], "messages 6 to 8 left") {
		t.Errorf("three are gone unread: %q", wrong)
	}
	if got, want := r.bodies(), []string{"1 1", "2 2", "3 3", "4 4", "5 5", "9 9", "10 10"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	must(t, r.js.DeleteStream(t.Context(), stream.Events))
	must(t, stream.Ensure(t.Context(), r.js, stream.Config{}))
	r.publish(3)
	wrong = r.verify(t.Context())
	if len(wrong) != 3 || !strings.Contains(wrong[0], "ends at 3, and had messages up to 10") ||
		!strings.Contains(wrong[1], "3 messages") {
		t.Errorf("three others are there in place of ten: %q", wrong)
	}
	over, end := context.WithCancel(t.Context())
	end()
	must(t, r.aged(over)) // they are young
	r.messages[0].at = r.messages[0].at.Add(-3 * eventsAge)
	if r.aged(over) == nil {
		t.Error("an old one stays, and that is fine")
	}
	r.remove(2)
	must(t, r.aged(t.Context()))
}

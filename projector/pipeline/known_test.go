package pipeline_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// keyed is an event with a key, of a service.
func keyed(n int, service string) event.Event {
	return event.Event{
		ArticleURL: fmt.Sprint("https://example.com/keyed/", n), SourceName: "source", ServiceName: service,
		Stage:      "crawled",
		OccurredAt: time.Now().Add(-time.Minute).Truncate(time.Second), IdempotencyKey: "key",
	}
}

func (b *bench) message(e event.Event) (m client.Message, text []byte) {
	b.t.Helper()
	text, err := json.Marshal(e)
	must(b.t, err)
	var r event.Record
	if invalid := event.Decode(text, &r); invalid != nil {
		b.t.Fatal(invalid)
	}
	return client.EventMessage(&r, text), text
}

// TestKnownEvents: two projectors with three slot groups between them tell a
// publisher what is known, as soon as it is folded, and what is a conflict; with
// none there, repeats are accepted, and count once.
func TestKnownEvents(t *testing.T) {
	b := newBench(t)
	b.groups = 3
	var msgs []client.Message
	for i := range 200 {
		m, text := b.message(keyed(i, "first"))
		msgs = append(msgs, m)
		b.publish(m.Subject, text)
	}
	ask := func(accepted, duplicates int) {
		t.Helper()
		p, err := client.New(b.nc, client.Config{})
		must(t, err)
		outcomes, err := p.PublishRaw(t.Context(), msgs)
		must(t, err)
		got := map[client.Status]int{}
		for _, o := range outcomes {
			got[o.Status]++
		}
		if got[client.Accepted] != accepted || got[client.Duplicate] != duplicates {
			t.Errorf("got %v, want %d accepted, %d duplicates", got, accepted, duplicates)
		}
	}
	ask(200, 0) // nobody is there
	stop := b.start(func(c *pipeline.Config) { c.Lease = time.Second })
	defer b.start(func(c *pipeline.Config) { c.Lease, c.Dir = time.Second, t.TempDir() })()
	b.reach(400)
	ask(0, 200)
	p, err := client.New(b.nc, client.Config{})
	must(t, err)
	for i := range 20 {
		m, _ := b.message(keyed(i, "second"))
		outcomes, _ := p.PublishRaw(t.Context(), []client.Message{m})
		var conflict *client.KeyConflict
		if !errors.As(outcomes[0].Err, &conflict) || conflict.Seq == 0 || conflict.Seq > 200 {
			t.Errorf("a key of another service: %+v", outcomes[0])
		}
	}
	stop()                   // the other projector takes all groups
	for _, m := range msgs { // each of which has something to fold, and so is folded
		b.publish(m.Subject, m.Data)
	}
	b.reach(b.truth.last)
	ask(0, 200)
	b.check()
}

// TestConflictsOverNATS holds invariant 8: what has another event's key is a dead
// letter, once, over restarts and lost key stores, and its message whole.
func TestConflictsOverNATS(t *testing.T) {
	b := newBench(t)
	bodies := map[uint64]string{}
	publish := func(n int, service string) {
		m, text := b.message(keyed(n, service))
		b.publish(m.Subject, text)
		if service != "first" {
			bodies[b.truth.last] = string(text)
			b.truth.invalid++
		}
	}
	for i := range 50 {
		publish(i, "first")
	}
	stop := b.start(nil)
	b.reach(50)
	for i := range 200 { // more than are read at once
		publish(i%50, fmt.Sprint("taker ", i))
	}
	b.reach(250)
	stop()
	b.decide(50, 250) // as if it had been killed before it acknowledged
	stop = b.start(nil)
	b.reach(250)
	stop()
	stop = b.start(func(c *pipeline.Config) { c.Dir = t.TempDir() }) // the key store is lost
	publish(7, "first")
	publish(7, "late taker")
	b.reach(252)
	stop()
	b.check()
	dlq, err := b.js.Stream(t.Context(), stream.DLQ)
	must(t, err)
	for seq, body := range bodies {
		m, err := dlq.GetLastMsgForSubject(t.Context(), stream.DeadLetterSubject(stream.Events, seq))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Fatalf("sequence %d is no letter", seq)
		}
		must(t, err)
		if string(m.Data) != body || m.Header.Get(stream.HeaderCode) != event.KeyConflict {
			t.Errorf("the letter of %d is %v %s", seq, m.Header, m.Data)
		}
	}
}

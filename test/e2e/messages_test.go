package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// testMessages: whatever any client publishes on the streams is counted or
// becomes a dead letter, and blocks nothing behind it.
func testMessages(t *testing.T, s *server) {
	nc, err := nats.Connect(s.natsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	most := int(nc.MaxPayload())
	// Letters are seen as they are written: other attacks purge and replay them.
	var letters sync.Map
	sub, err := s.nats().Subscribe(stream.DLQSubjects, func(m *nats.Msg) { letters.Store(m.Subject, true) })
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	var bad []string // the subjects of the letters that are due
	publish := func(stored bool, m *nats.Msg) {
		t.Helper()
		limit := waitLimit
		if !stored {
			limit = 5 * time.Second // some are never answered
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		ack, err := js.PublishMsg(ctx, m)
		if stored && err == nil {
			bad = append(bad, stream.DeadLetterSubject(ack.Stream, ack.Sequence))
		}
		if (err == nil) != stored || stored && ack.Stream == "" {
			t.Errorf("%.100q with %d bytes: %+v, %v", m.Subject, len(m.Data), ack, err)
		}
	}
	message := func(subject string, data []byte, header ...string) *nats.Msg {
		m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
		for i := 0; i < len(header); i += 2 {
			m.Header[header[i]] = append(m.Header[header[i]], header[i+1])
		}
		return m
	}
	odd := []byte(valid(map[string]any{"source_name": "odd"}))
	for _, subject := range []string{
		"events.crawled.zz", "events.crawled.000", "events.CRAWLED.00", "events.crawled.\x00", "events.\xff\xfe.00",
		"events.$JS.API", "events.crawled.🦀",
		"events." + strings.Repeat("a", 2000) + ".00", "shards.>.x", "shards.a.b.c.d.e", "shards.register",
	} {
		publish(true, message(subject, odd))
	}
	for _, data := range [][]byte{
		nil, []byte("\x00"), bytes.Repeat([]byte("["), 1<<20), bytes.Repeat([]byte("x"), most),
		bytes.Repeat([]byte(" "), most-100),
		append(bytes.Clone(odd), bytes.Repeat([]byte(" "), most-len(odd))...), // its letter's begin is an event
	} {
		publish(true, message("events.crawled.00", data))
		publish(true, message("shards.shard-worker.done", data))
	}
	publish(true, message("events.crawled.00", nil, "Nats-Msg-Id", strings.Repeat("i", 60_000)))
	publish(true, message("events.crawled.01", nil, "Nats-Msg-Id", "\x00\xff", "Status", "503", "Description",
		"No Messages", "Millrace-Code", "forged", "Millrace-Cut", "7"))
	publish(true, message("events.crawled.02", nil, "Nats-Last-Consumer", "0", "Nats-Consumer-Stalled",
		"x", "Nats-Pending-Messages", "-1"))
	// the server allows headers of 64 KiB
	publish(false, message("events.crawled.00", nil, "Nats-Msg-Id", strings.Repeat("i", 1<<20)))
	publish(false, message("events.crawled.00", make([]byte, most+1)))
	publish(false, message("events.crawled", odd))
	publish(false, message("events.a.b.c", odd))
	// One that wants its acknowledgement in odd places gets it there, or nowhere.
	for _, reply := range []string{
		"events.crawled.03", "dlq.EVENTS.1", "millrace.funnel.deltas", "a..b",
		"$JS.API.STREAM.PURGE.EVENTS",
	} {
		_ = nc.PublishMsg(&nats.Msg{Subject: "events.crawled.04", Reply: reply, Data: odd})
	}
	for _, subject := range []string{"millrace.funnel.deltas", "millrace.members", "work.shard-worker"} {
		// what the parts of Millrace tell each other
		_ = nc.Publish(subject, []byte("nonsense"))
		_ = nc.Publish(subject, bytes.Repeat([]byte{0xff}, 1<<20))
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	s.countsBehind(t, js)
	for _, subject := range bad {
		poll(t, waitLimit, "the dead letter "+subject, func() bool {
			_, written := letters.Load(subject)
			return written
		})
	}
	if status, body := s.with(t, token(t, "admin"), http.MethodGet, "/dlq?limit=1000", ""); status != http.StatusOK ||
		!json.Valid(body) {
		t.Errorf("the list of letters: status %d: %.300s", status, body)
	}
}

// countsBehind publishes an event behind whatever is there and waits until it
// is counted.
func (s *server) countsBehind(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	text := []byte(
		valid(map[string]any{
			"source_name": "behind", "article_url": fmt.Sprint("https://example.com/behind/", time.Now().UnixNano()),
		}),
	)
	var r event.Record
	if err := event.Decode(text, &r); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), stream.EventSubject("crawled", r.URLHash), text); err != nil {
		t.Fatal(err)
	}
	poll(t, waitLimit, "an event behind odd messages to be counted", func() bool {
		status, body := s.with(t, token(t, "read"), http.MethodGet, "/funnel?period=24h&source=behind", "")
		var f funnel
		return status == http.StatusOK && json.Unmarshal(body, &f) == nil && f.Stages[0].Events == 1
	})
}

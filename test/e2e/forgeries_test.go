package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// testForgeries: who has no login on NATS can't speak for Millrace, take away
// what is kept, or listen to what others are told.
func testForgeries(t *testing.T, s *server) {
	stranger, err := nats.Connect(s.natsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	ours := s.nats()
	js, err := jetstream.New(ours)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan *nats.Msg, 1024)
	for _, subject := range []string{"_INBOX.>", "millrace.>", "dlq.>", "$KV.>", "$JS.>", "events.>", "work.>"} {
		if _, err := stranger.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	forged := make(chan *nats.Msg, 64)
	for _, subject := range []string{"dlq.EVENTS.1000001", "dlq.EVENTS.1000002", "$KV." + stream.Checkpoints +
		".funnel.7", "$KV." + stream.Checkpoints + ".layout"} {
		if _, err := ours.ChanSubscribe(subject, forged); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(stranger.FlushTimeout(waitLimit), ours.FlushTimeout(waitLimit)); err != nil {
		t.Fatal(err)
	}
	quarter := uint32(time.Now().Unix() / 900 * 900)
	delta := contract.Delta{
		From: 1, To: 1 << 40, Parts: 1, Stages: []string{"crawled"}, Sources: []string{"forged"},
		Entries: []contract.Entry{{Quarter: quarter, Article: 1}},
	}
	odd := []byte(valid(map[string]any{"source_name": "forgeries"}))
	for subject, body := range map[string][]byte{
		stream.FunnelDeltas:               delta.AppendBinary(nil),
		"dlq.EVENTS.1000001":              odd,
		"$KV.millrace_checkpoints.layout": []byte("garbage"), "$KV.millrace_checkpoints.funnel.7": []byte("garbage"),
		"$JS.API.STREAM.PURGE.DLQ": nil, "$JS.API.STREAM.PURGE.EVENTS": nil,
		"$JS.API.STREAM.DELETE.DLQ": nil, "$JS.API.STREAM.DELETE.EVENTS": nil, "$JS.API.STREAM.DELETE.WORK": nil,
		"$JS.API.STREAM.DELETE.KV_millrace_checkpoints": nil, "$JS.API.CONSUMER.DELETE.WORK.shard-worker": nil,
		"$JS.API.CONSUMER.CREATE.EVENTS.mine": []byte(`{"stream_name":"EVENTS","config":{"name":"mine",` +
			`"deliver_subject":"dlq.EVENTS.1000002"}}`),
	} {
		if err := stranger.PublishRequest(subject, "_INBOX.answer", body); err != nil {
			t.Fatal(err)
		}
	}
	// JetStream answers where it is told to: not outside of the stranger's account.
	for _, reply := range []string{
		"dlq.EVENTS.1000002", "$KV.millrace_checkpoints.funnel.7",
		"$KV.millrace_checkpoints.layout", stream.FunnelDeltas,
	} {
		if err := stranger.PublishRequest("events.crawled.00", reply, odd); err != nil {
			t.Fatal(err)
		}
		if err := stranger.PublishRequest("$JS.API.CONSUMER.INFO.WORK.shard-worker", reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := stranger.FlushTimeout(waitLimit); err != nil {
		t.Fatal(err)
	}
	s.countsBehind(t, js) // and its answer, and those before it, are through
	for _, name := range []string{stream.Events, stream.DLQ, stream.Work, "KV_" + stream.Checkpoints} {
		if _, err := js.Stream(t.Context(), name); err != nil {
			t.Errorf("stream %s: %v", name, err)
		}
	}
	if _, err := js.Consumer(t.Context(), stream.Work, "shard-worker"); err != nil {
		t.Errorf("the queue is gone: %v", err)
	}
	if len(forged) > 0 {
		t.Errorf("%d forged messages, of them %s: %.200q", len(forged), (<-forged).Subject, (<-forged).Data)
	}
	kv, err := js.KeyValue(t.Context(), stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := kv.Get(t.Context(), "funnel.0"); err != nil {
		t.Error(err)
	} else if _, err := contract.ParseCheckpoint(entry.Value()); err != nil {
		t.Error(err)
	}
	var f funnel
	status, body := s.with(t, token(t, "read"), http.MethodGet, "/funnel?period=24h&source=forged", "")
	if status != http.StatusOK || json.Unmarshal(body, &f) != nil || f.Stages[0].Events != 0 {
		t.Errorf("the funnel shows what was forged: %d, %.300s", status, body)
	}
	for len(heard) > 0 { // answers to others who have no login are there, too
		m := <-heard
		if !strings.HasPrefix(m.Subject, "_INBOX.") || m.Subject == "_INBOX.answer" ||
			bytes.Contains(m.Data, []byte("KV_millrace")) {
			t.Errorf("a stranger reads %s: %.200q", m.Subject, m.Data)
		}
	}
}

package work_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestDeletedStreams: streams and consumers that an operator deletes while a process leads are made anew, and what
// daemons answer and report arrives again (invariant 7).
func TestDeletedStreams(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, time.Minute)
	// As the account of a role passes an answer on.
	answer := func(m jetstream.Msg) error {
		subject := "millrace.ack." + strings.TrimPrefix(m.Reply(), "$JS.ACK."+stream.Work+".")
		_, err := h.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte("+ACK")})
		return err
	}
	report := func(jetstream.Msg) error {
		_, err := h.js.Publish(t.Context(), stream.ShardSubject("shard-splitter", "done"), []byte(`{"filename":"reported","shard":0}`))
		return err
	}
	for i, c := range []struct {
		stream, consumer string
		file             string
		say              func(jetstream.Msg) error
	}{
		{stream.WorkAckRelay, "", "a", answer},
		{stream.WorkAckRelay, stream.WorkAckRelay, "b", answer},
		{stream.Work, stream.Nobody, "c", answer},
		{stream.WorkAcks, "", "d", answer},
		{stream.Shards, "", "reported", report},
	} {
		h.file(c.file, 1)
		m := h.pull(shard.Splitter, 1)[0]
		h.await(shard.Splitter, item.Started, 1)
		var err error
		if c.consumer == "" {
			err = h.js.DeleteStream(t.Context(), c.stream)
		} else {
			err = h.js.DeleteConsumer(t.Context(), c.stream, c.consumer)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.until(c.stream+" "+c.consumer, func() (string, bool) {
			_, err := h.js.Stream(t.Context(), c.stream)
			if err == nil && c.consumer != "" {
				_, err = h.js.Consumer(t.Context(), c.stream, c.consumer)
			}
			return "", err == nil
		})
		if err := c.say(m); err != nil {
			t.Fatalf("after %s %s was deleted: %v", c.stream, c.consumer, err)
		}
		h.await(shard.Splitter, item.Done, i+1)
	}
}

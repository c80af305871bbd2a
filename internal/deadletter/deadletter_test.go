package deadletter

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestLargeLetters holds invariant 8 of the projector for messages that leave
// no room for the reason: they become letters too, and block nothing.
func TestLargeLetters(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	most := int(js.Conn().MaxPayload())
	body := bytes.Repeat([]byte("0123456789abcdef"), most/16)
	long := strings.Repeat("long ", 50_000) // more than a stream takes of headers
	letters := []Letter{
		{Seq: 1, Subject: "events.a.00", Data: body, Reason: item.Invalid{Code: "size", Rule: "is too large"}},
		{
			Seq: 2, Subject: strings.Repeat("events", 1000), Data: body[:most-1],
			Reason: item.Invalid{Code: "a\r\nb", Field: long, Rule: long},
		},
		{Seq: 3, Subject: "events.a.00", Data: body[:most/2], Reason: item.Invalid{Code: "fits", Rule: "has room"}},
		{Seq: 4, Subject: "events.a.00", Reason: item.Invalid{Code: "empty", Rule: "is empty"}},
	}
	for i := range letters {
		letters[i].Stream = stream.Events
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // each is there once
		if err := Publish(ctx, js, letters, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := js.Stream(ctx, stream.DLQ)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != uint64(len(letters)) {
		t.Errorf("%d letters, want %d", n, len(letters))
	}
	ids := map[string]bool{}
	for _, l := range letters {
		m, err := s.GetLastMsgForSubject(ctx, stream.DeadLetterSubject(stream.Events, l.Seq))
		if err != nil {
			t.Fatal(err)
		}
		cut, _ := strconv.Atoi(m.Header.Get(stream.HeaderCut))
		if !bytes.HasPrefix(l.Data, m.Data) || len(m.Data)+cut != len(l.Data) || cut > 20<<10 {
			t.Errorf("letter %d has %d of %d bytes, %d are said to be cut", l.Seq, len(m.Data), len(l.Data), cut)
		}
		if wants := l.Seq < 3; (cut != 0) != wants || m.Header.Get(stream.HeaderCode) == "" {
			t.Errorf("letter %d: %d bytes are cut, code %q", l.Seq, cut, m.Header.Get(stream.HeaderCode))
		}
		ids[m.Header.Get(stream.HeaderReplayID)] = true
	}
	if delete(ids, ""); len(ids) != len(letters) {
		t.Errorf("%d replay ids for %d letters", len(ids), len(letters))
	}
}

// TestUnanswered holds invariant 8 of the projector for more letters than may
// wait for an answer at once: when none comes, each is sent again.
func TestUnanswered(t *testing.T) {
	const waiting, all = 10, 25
	server := natstest.Start(t, stream.Config{})
	js, err := jetstream.New(server.Connect(), jetstream.WithPublishAsyncMaxPending(waiting),
		jetstream.WithPublishAsyncTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), stream.DLQ); err != nil {
		t.Fatal(err)
	}
	mute, err := js.Conn().SubscribeSync(stream.DLQSubjects) // takes letters, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	var letters []Letter
	for seq := range uint64(all) {
		letters = append(letters, Letter{
			Stream: stream.Events, Subject: "events.a.00", Seq: seq + 1,
			Reason: item.Invalid{Code: "a", Rule: "b"},
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Publish(ctx, js, letters, slog.New(slog.DiscardHandler)) }()
	for range waiting {
		if _, err := mute.NextMsgWithContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Ensure(ctx, js, stream.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(ctx, stream.DLQ)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != all {
		t.Errorf("%d letters, want %d", n, all)
	}
}

package deadletter

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
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
		{Seq: 1, Subject: "events.a.00", Data: body, Reason: &event.Invalid{Code: "size", Rule: "is too large"}},
		{Seq: 2, Subject: strings.Repeat("events", 1000), Data: body[:most-1], Reason: &event.Invalid{Code: "a\r\nb", Field: long, Rule: long}},
		{Seq: 3, Subject: "events.a.00", Data: body[:most/2], Reason: &event.Invalid{Code: "fits", Rule: "has room"}},
		{Seq: 4, Subject: "events.a.00", Reason: &event.Invalid{Code: "empty", Rule: "is empty"}},
	}
	for i := range letters {
		letters[i].Stream = stream.Events
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
	}
}

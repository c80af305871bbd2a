package fold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

func publish(t *testing.T, js jetstream.JetStream, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		m := nats.NewMsg("events.crawled.00")
		m.Data = fmt.Append(nil, i)
		m.Header.Set("Status", "409") // a publisher's header is not the server's word
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// expect reads up to a sequence and holds that none is missing or repeated.
func expect(t *testing.T, s *reader, from, to uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for next := from; next <= to; {
		ms, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("waiting for sequence %d: %v", next, err)
		}
		for _, m := range ms {
			if m.Seq != next || string(m.Data) != fmt.Sprint(next) {
				t.Fatalf("sequence %d with %q, want %d", m.Seq, m.Data, next)
			}
			next++
		}
	}
}

// TestOrderOverRestarts holds invariant 1 of the projector: one order, without
// gaps, while the server restarts, the consumer is deleted and the read-ahead
// is small.
func TestOrderOverRestarts(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := newReader(StreamConfig{Stream: stream.Events, Consumer: "test", ReadAhead: 16, ReadAheadBytes: 2000}, nc, js, 10, Known{},
		slog.New(slog.DiscardHandler))
	defer s.Close()
	publish(t, js, 1, 60)
	expect(t, s, 11, 60)

	srv.Stop()
	srv.Start()
	publish(t, srv.JetStream(), 61, 120)
	expect(t, s, 61, 120)

	if err := srv.JetStream().DeleteConsumer(t.Context(), stream.Events, s.name); err != nil {
		t.Fatal(err)
	}
	publish(t, srv.JetStream(), 121, 180)
	expect(t, s, 121, 180)
}

// TestShorter: a stream that has lost what was read of it, as a NATS server may
// that loses its power, is an error, also when it has grown again meanwhile.
// What is published behind its new end would else never be read.
func TestShorter(t *testing.T) {
	defer func(before time.Duration) { leaderLag = before }(leaderLag)
	leaderLag = 0
	for name, grown := range map[string]int{"shorter": 20, "grown again": 80} {
		t.Run(name, func(t *testing.T) {
			srv := natstest.Start(t, stream.Config{})
			nc := srv.Connect()
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			s := newReader(StreamConfig{Stream: stream.Events, Consumer: "test"}, nc, js, 0, Known{}, slog.New(slog.DiscardHandler))
			defer s.Close()
			publish(t, js, 1, 60)
			expect(t, s, 1, 60)

			if err := js.DeleteStream(t.Context(), stream.Events); err != nil {
				t.Fatal(err)
			}
			if err := stream.Ensure(t.Context(), js, stream.Config{}); err != nil {
				t.Fatal(err)
			}
			publish(t, js, 1, grown)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if ms, err := s.Next(ctx); !errors.Is(err, ErrShorter) {
				t.Errorf("%d messages, %v", len(ms), err)
			}
		})
	}
}

// TestLargeMessages: a message as large as the server takes is read, however
// small the read-ahead, and those behind it too.
func TestLargeMessages(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{10, int(nc.MaxPayload()), 10, int(nc.MaxPayload()), 0}
	for _, size := range sizes {
		if _, err := js.Publish(t.Context(), "events.crawled.00", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	s := newReader(StreamConfig{Stream: stream.Events, Consumer: "test", ReadAheadBytes: 1000}, nc, js, 0, Known{},
		slog.New(slog.DiscardHandler))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for seq := 0; seq < len(sizes); {
		ms, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("after message %d: %v", seq, err)
		}
		for _, m := range ms {
			if m.Seq != uint64(seq+1) || len(m.Data) != sizes[seq] {
				t.Fatalf("message %d has %d bytes, want %d", m.Seq, len(m.Data), sizes[seq])
			}
			seq++
		}
	}
}

// TestCaughtUp: where a group's own subjects have nothing more, the consumer
// says how far the stream goes beyond them.
func TestCaughtUp(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := StreamConfig{
		Stream: stream.Events, Consumer: "test",
		Subjects: []string{stream.SlotSubjects(1), stream.SlotSubjects(3)},
	}
	s := newReader(cfg, nc, js, 0, Known{}, slog.New(slog.DiscardHandler))
	defer s.Close()
	if last, upTo := s.CaughtUp(); last != 0 || upTo != 0 {
		t.Errorf("before anything is known: %d, %d", last, upTo)
	}
	for _, subject := range []string{"events.crawled.00", "events.crawled.03", "events.crawled.02"} {
		if _, err := js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	caughtUp(t, s, 2, 3)
	publish(t, js, 4, 9) // of a slot that is not read
	caughtUp(t, s, 2, 9)
}

// caughtUp reads until nothing up to a sequence is left.
func caughtUp(t *testing.T, s *reader, wantLast, wantUpTo uint64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), heartbeat/5)
		_, _ = s.Next(ctx) // which ends with ctx
		cancel()
		last, upTo := s.CaughtUp()
		switch {
		case last > wantLast || upTo > wantUpTo || time.Now().After(deadline):
			t.Fatalf("%d has been received and nothing is left up to %d, want %d and %d", last, upTo,
				wantLast, wantUpTo)
		case last == wantLast && upTo == wantUpTo:
			return
		}
	}
}

// TestCaughtUpByHeartbeats: nothing is left up to where the consumer has
// looked, on its own server. When it has sent what has not come, it is made
// again (invariant 1 of the projector), though no message follows.
func TestCaughtUpByHeartbeats(t *testing.T) {
	s := &reader{wake: make(chan struct{}, 1)}
	message := func(seq, consumer uint64) *nats.Msg {
		return &nats.Msg{Reply: fmt.Sprintf("$JS.ACK.EVENTS.c.1.%d.%d.1700000000000000001.0", seq, consumer)}
	}
	beat := func(fields string) *nats.Msg {
		header, err := nats.DecodeHeadersMsg([]byte("NATS/1.0 100 Idle Heartbeat\r\n" + fields + "\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		return &nats.Msg{Header: header}
	}
	for _, step := range []struct {
		msg        *nats.Msg
		last, upTo uint64
	}{
		{beat("Nats-Last-Consumer: 0\r\nNats-Last-Stream: 4\r\n"), 0, 4},
		{message(7, 1), 7, 4},
		{beat("Nats-Last-Consumer: 0\r\nNats-Last-Stream: 5\r\n"), 7, 4}, // of a consumer that began anew
		{beat("Nats-Last-Consumer: 1\r\nNats-Last-Stream: 9\r\n"), 7, 9},
		{beat("Nats-Last-Consumer: 1\r\n"), 7, 9},
		{beat("Nats-Last-Stream: 12\r\n"), 7, 9},
		{message(12, 2), 12, 9},
	} {
		if s.receive(step.msg); s.broken != nil {
			t.Fatal(s.broken)
		}
		if last, upTo := s.CaughtUp(); last != step.last || upTo != step.upTo {
			t.Errorf("after %+v: %d, %d, want %d, %d", step.msg, last, upTo, step.last, step.upTo)
		}
	}
	lost := beat("Nats-Last-Consumer: 3\r\nNats-Last-Stream: 15\r\n")
	if s.receive(lost); !errors.Is(s.broken, errGap) {
		t.Errorf("after a lost message: %v", s.broken)
	}
	if last, upTo := s.CaughtUp(); last != 12 || upTo != 9 {
		t.Errorf("after a lost message: %d, %d", last, upTo)
	}
}

func TestParseMetadata(t *testing.T) {
	want := metadata{stream: 42, consumer: 7, time: 1700000000000000001, pending: 3}
	for _, reply := range []string{
		"$JS.ACK.EVENTS.projector-0.1.42.7.1700000000000000001.3",
		"$JS.ACK.hub.AABBCC.EVENTS.projector-0.1.42.7.1700000000000000001.3",
		"$JS.ACK.hub.AABBCC.EVENTS.projector-0.1.42.7.1700000000000000001.3.token",
	} {
		if got, err := parseMetadata(reply); err != nil || got != want {
			t.Errorf("%s: %+v, %v", reply, got, err)
		}
	}
	for _, reply := range []string{
		"", "_INBOX.x", "$JS.ACK.EVENTS", "$JS.ACK.EVENTS.c.1.x.7.1.3",
		"$JS.ACK.EVENTS.c.1.42.7.1.",
	} {
		if got, err := parseMetadata(reply); err == nil {
			t.Errorf("%q reads as %+v", reply, got)
		}
	}
}

// TestSkips: a record that the server cannot read is passed over in silence. The
// reader tells that a pending message does not come, also when it is the first.
func TestSkips(t *testing.T) {
	slowtest.Mark(t)
	for _, damaged := range []int{1, 20, 60} {
		t.Run(fmt.Sprint("message ", damaged), func(t *testing.T) {
			srv := natstest.Start(t, stream.Config{})
			publish(t, srv.JetStream(), 1, 60)
			srv.Stop()
			file := filepath.Join(srv.Dir(), "jetstream", stream.Account(stream.RoleMillrace), "streams", stream.Events,
				"msgs", "1.blk")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, at := 0, 0; ; i++ { // the header of each message
				at += bytes.Index(data[at:], []byte("Status: 409"))
				if i == damaged-1 {
					data[at] ^= 1
					break
				}
				at++
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			srv.Start()
			nc := srv.Connect()
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			skipped := make(chan struct{}, 1)
			s := newReader(StreamConfig{Stream: stream.Events, Consumer: "test", Skips: func() { skipped <- struct{}{} }}, nc, js, 0, Known{},
				slog.New(slog.DiscardHandler))
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for n := 0; n < 59; {
				ms, err := s.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				n += len(ms)
			}
			select {
			case <-skipped:
			case <-ctx.Done():
				t.Error("nobody was told")
			}
		})
	}
}

// TestSkipsNothing: whoever reads all there is misses nothing.
func TestSkipsNothing(t *testing.T) {
	s := &reader{wake: make(chan struct{}, 1), cfg: StreamConfig{Skips: func() { t.Error("nothing was skipped") }}}
	beat := func(consumer int) {
		header, err := nats.DecodeHeadersMsg(fmt.Appendf(nil, "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\n"+
			"Nats-Last-Stream: 9\r\n\r\n", consumer))
		if err != nil {
			t.Fatal(err)
		}
		s.receive(&nats.Msg{Header: header})
	}
	for i, pending := range []int{1, 0} {
		s.receive(&nats.Msg{Reply: fmt.Sprintf("$JS.ACK.EVENTS.c.1.%d.%d.1700000000000000001.%d", i+1, i+1, pending)})
		beat(i + 1)
	}
	for range 3 * skippedAfter {
		beat(2)
	}
}

package work_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestPlain: a daemon that pulls and acknowledges, and no more, takes items
// through (invariants 1, 4 and 6).
func TestPlain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 4)
	for _, stage := range shard.Queues {
		msgs := h.pull(stage, 4)
		h.await(stage, item.Started, 4) // seen without an answer
		for _, m := range msgs {
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		h.await(stage, item.Done, 4)
		if got := h.moves(stage); got["start"] != 4 || got["done"] != 4 {
			t.Errorf("%s: history %v", stage, got)
		}
	}
	h.until("an empty stream", func() (string, bool) { n := h.messages(); return "", n == 0 })
}

// TestLapsedOverHTTP: an item that a daemon has let lapse goes to one that takes over HTTP,
// also where nothing else is in the queue (invariant 4).
func TestLapsedOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	h.file("a", 1)
	h.pull(shard.Splitter, 1)
	h.await(shard.Splitter, item.Started, 1)
	h.until("the item", func() (string, bool) {
		taken, err := h.hands.Take(t.Context(), shard.Splitter.String(), "w", 2, time.Minute)
		return fmt.Sprintf("%v, error %v", taken, err), err == nil && len(taken) == 1 && taken[0].Worker == "w"
	})
	if got := h.moves(shard.Splitter); !maps.Equal(got, map[string]int{"start": 2}) {
		t.Errorf("history %v: the item was mended first", got)
	}
}

// TestAnswers: each kind of answer does what it says (invariant 6).
func TestAnswers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	h.file("a", 5)
	const stage = shard.Splitter
	msgs := h.pull(stage, 5)
	for _, err := range []error{
		msgs[0].Ack(), msgs[1].TermWithReason("no such column"), msgs[2].NakWithDelay(3 * time.Second), msgs[3].Nak(),
		msgs[4].InProgress(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The fourth comes again at once, the third after its delay in a message
	// of its own, the last when its daemon has been silent too long.
	attempts := map[int]int32{}
	for range 3 {
		m := h.pull(stage, 1)[0]
		attempts[h.item(m).Shard] = h.item(m).Attempts
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int]int32{h.item(msgs[2]).Shard: 1, h.item(msgs[3]).Shard: 0, h.item(msgs[4]).Shard: 0}
	if !maps.Equal(attempts, want) {
		t.Errorf("came again: %v, not %v", attempts, want)
	}
	h.await(stage, item.Done, 4)
	h.await(stage, item.Failed, 1)
	var reason string
	if err := h.store.Pool().QueryRow(
		t.Context(),
		"SELECT shard_splitter_error FROM millrace.pipeline_tracking WHERE shard_splitter_status = 'failed'",
	).Scan(&reason); err != nil || reason != "no such column" {
		t.Errorf("reason %q, %v", reason, err)
	}
}

// TestAnswersAtAPausedStage: what daemons had before their stage was paused,
// or became full, they end, each item once (invariant 6).
func TestAnswersAtAPausedStage(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{"paused": "paused = true", "full": "concurrency = 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, time.Minute)
			h.file("a", 4)
			msgs := h.pull(shard.Splitter, 4)
			h.stop() // before it has seen that they were handed out
			if _, err := h.store.Pool().Exec(t.Context(),
				"UPDATE millrace.stage SET "+set+" WHERE stage = 1"); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{
				msgs[0].Ack(), msgs[1].TermWithReason("broken"), msgs[2].Ack(),
				msgs[3].InProgress(),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			h.serve()
			h.await(shard.Splitter, item.Done, 2)
			h.await(shard.Splitter, item.Failed, 1)
			h.await(shard.Splitter, item.Started, 1)
			if got := h.moves(shard.Splitter); got["start"] != 4 || got["done"] != 2 || got["fail"] != 1 {
				t.Errorf("history %v", got)
			}
		})
	}
}

// TestDead: an item that no daemon answers for is dead (invariant 6).
func TestDead(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, quick)
	if _, err := h.store.Pool().Exec(t.Context(), "UPDATE millrace.stage SET max_attempts = 3"); err != nil {
		t.Fatal(err)
	}
	h.until("3 deliveries at most", func() (string, bool) {
		c, err := h.js.Consumer(t.Context(), stream.Work, shard.Splitter.String())
		return "", err == nil && c.CachedInfo().Config.MaxDeliver == 3
	})
	h.file("a", 1)
	for range 3 {
		h.pull(shard.Splitter, 1)
	}
	// The server says so when it would deliver once more.
	c, err := h.js.Consumer(t.Context(), stream.Work, shard.Splitter.String())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(1, jetstream.FetchMaxWait(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	h.await(shard.Splitter, item.Failed, 1)
	h.until("an empty stream", func() (string, bool) { return "", h.messages() == 0 })
	for m := range batch.Messages() {
		t.Errorf("delivered %s", m.Data())
	}
}

// TestDeadUnheard: nobody hears that the server has given messages up. An item that a
// plain daemon had fails, one that nobody may start has a new message (invariant 7).
func TestDeadUnheard(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	acks, err := h.js.Stream(t.Context(), stream.WorkAcks)
	if err != nil {
		t.Fatal(err)
	}
	deaf := acks.CachedInfo().Config
	deaf.Subjects = []string{stream.WorkAckSubjects}
	if _, err := h.js.UpdateStream(t.Context(), deaf); err != nil {
		t.Fatal(err)
	}
	if _, err := h.store.Pool().Exec(t.Context(), "UPDATE millrace.stage SET max_attempts = 1"); err != nil {
		t.Fatal(err)
	}
	c, err := h.js.Consumer(t.Context(), stream.Work, shard.Splitter.String())
	if err != nil {
		t.Fatal(err)
	}
	h.until("1 delivery at most", func() (string, bool) {
		info, err := c.Info(t.Context())
		return "", err == nil && info.Config.MaxDeliver == 1
	})
	h.file("a", 2)
	msgs := h.pull(shard.Splitter, 2)
	if err := h.nc.Publish(msgs[1].Reply(), stream.Refused(0)); err != nil {
		t.Fatal(err)
	}
	// The server gives messages up when it would deliver them once more.
	again := h.pull(shard.Splitter, 1)[0]
	if h.item(again).ID != h.item(msgs[1]).ID {
		t.Errorf("item %d comes again, not the one that was refused", h.item(again).ID)
	}
	if err := again.Ack(); err != nil {
		t.Fatal(err)
	}
	h.await(shard.Splitter, item.Failed, 1)
	h.await(shard.Splitter, item.Done, 1)
	h.until("the message of the next stage alone", func() (string, bool) { return "", h.messages() == 1 })
}

// TestDeadBefore: what the server says of a message that is gone is not about an
// item that has come again, and which another daemon has (invariant 6).
func TestDeadBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 2)
	h.until("2 messages", func() (string, bool) { return "", h.messages() == 2 })
	if err := h.stream().DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	msgs := h.pull(shard.Splitter, 2) // the second in place of what was deleted, of the same generation
	h.await(shard.Splitter, item.Started, 2)
	advisory := strings.TrimSuffix(stream.WorkDeadSubjects, "*") + shard.Splitter.String()
	if err := h.nc.Publish(advisory, []byte(`{"stream_seq":1,"deliveries":3}`)); err != nil {
		t.Fatal(err)
	}
	for i, m := range msgs {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
		h.await(shard.Splitter, item.Done, i+1) // and so the advisory is read before the next
	}
}

// TestAnswersWhileAway: what daemons answer while no service runs is applied
// when one does (invariant 6).
func TestAnswersWhileAway(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 10)
	msgs := h.pull(shard.Splitter, 10)
	h.stop()
	for _, m := range msgs {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.serve()
	h.await(shard.Splitter, item.Done, 10)
	if got := h.moves(shard.Splitter); got["start"] != 10 || got["done"] != 10 {
		t.Errorf("history %v", got)
	}
}

// TestLateNak: a negative acknowledgement that is read after its delay takes the
// item from nobody who got it from the server meanwhile (invariant 6).
func TestLateNak(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 1)
	m := h.pull(shard.Splitter, 1)[0]
	h.stop()
	if err := m.NakWithDelay(1500 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := h.pull(shard.Splitter, 1)[0].Ack(); err != nil {
		t.Fatal(err)
	}
	h.serve()
	h.await(shard.Splitter, item.Done, 1)
	if got := h.moves(shard.Splitter); !maps.Equal(got, map[string]int{"start": 1, "done": 1}) {
		t.Errorf("history %v", got)
	}
}

// TestAnswersOfALostEnd: answers that stand where a stream that has lost its end
// was read before are applied (invariant 6).
func TestAnswersOfALostEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 3)
	msgs := h.pull(shard.Splitter, 3)
	h.await(shard.Splitter, item.Started, 3)
	h.stop()
	for _, m := range msgs {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var last uint64
	h.until("3 answers", func() (string, bool) {
		s, err := h.js.Stream(t.Context(), stream.WorkAcks)
		if err == nil {
			last = s.CachedInfo().State.LastSeq
		}
		return "", last >= 3
	})
	const read = "INSERT INTO millrace.work_position (stream, seq) VALUES ($1, $2) ON CONFLICT (stream) DO UPDATE " +
		"SET seq = excluded.seq"
	if _, err := h.store.Pool().Exec(t.Context(), read, stream.WorkAcks, int64(last-1)); err != nil {
		t.Fatal(err)
	}
	h.serve()
	h.await(shard.Splitter, item.Done, 3)
}

// TestClockSetBack: an item of a daemon that is gone comes again although the
// server would wait for an hour, as it does when its clock was set back by that
// (invariant 7).
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	h.file("a", 1)
	m := h.pull(shard.Splitter, 1)[0]
	h.stop()
	// That leaves the same behind at the server as a clock that was an hour
	// ahead when the item was handed out. Nobody is told.
	if err := m.NakWithDelay(time.Hour); err != nil {
		t.Fatal(err)
	}
	s, err := h.js.Stream(t.Context(), stream.WorkAcks)
	if err != nil {
		t.Fatal(err)
	}
	h.until("the answer", func() (string, bool) {
		info, err := s.Info(t.Context())
		return "", err == nil && info.State.Msgs > 0
	})
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.serve()
	if err := h.pull(shard.Splitter, 1)[0].Ack(); err != nil {
		t.Fatal(err)
	}
	h.await(shard.Splitter, item.Done, 1)
}

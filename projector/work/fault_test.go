package work_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/work"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

func (h *house) stream() jetstream.Stream {
	h.Helper()
	s, err := h.js.Stream(h.Context(), stream.Work)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// TestMissing: messages that somebody has deleted or purged come back, and no
// item that a daemon has goes to another (invariant 7).
func TestMissing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 20)
	held := h.pull(shard.Splitter, 5)
	h.await(shard.Splitter, item.Started, 5)
	h.until("20 messages", func() (string, bool) { return "", h.messages() == 20 })
	if err := h.stream().DeleteMsg(t.Context(), 11); err != nil {
		t.Fatal(err)
	}
	h.until("what was deleted", func() (string, bool) { return "", h.messages() == 20 })
	if err := h.stream().Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.until("what was purged and nobody has", func() (string, bool) { return "", h.messages() == 15 })
	for _, m := range append(held, h.pull(shard.Splitter, 15)...) {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	h.await(shard.Splitter, item.Done, 20)
	if got := h.moves(shard.Splitter); got["start"] != 20 || got["done"] != 20 {
		t.Errorf("history %v", got)
	}
}

// TestLost: an item goes to another daemon when the one that has it dies after
// its message is gone (invariant 7).
func TestLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	h.file("a", 1)
	h.pull(shard.Splitter, 1)
	h.await(shard.Splitter, item.Started, 1)
	if err := h.stream().Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := h.pull(shard.Splitter, 1)[0]
	if got := h.item(again); got.Attempts != 1 {
		t.Errorf("came again as %+v", got)
	}
	if err := again.Ack(); err != nil {
		t.Fatal(err)
	}
	h.await(shard.Splitter, item.Done, 1)
}

// TestLostAtWork: an item whose message is gone stays with a daemon that says
// that it is at work, however long (invariant 7).
func TestLostAtWork(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, quick)
	h.file("a", 1)
	m := h.pull(shard.Splitter, 1)[0]
	others, err := h.js.Consumer(t.Context(), stream.Work, shard.Splitter.String())
	if err != nil {
		t.Fatal(err)
	}
	// Longer than a silent daemon has before its message is gone, and twice as
	// long after.
	const beats, purgeAt = 30, 10
	for i := range beats {
		if err := m.InProgress(); err != nil {
			t.Fatal(err)
		}
		if i == purgeAt {
			if err := h.stream().Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		batch, err := others.Fetch(1, jetstream.FetchMaxWait(quick/8))
		if err != nil {
			t.Fatal(err)
		}
		for again := range batch.Messages() {
			t.Fatalf("another daemon got %s at beat %d", again.Data(), i)
		}
	}
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	h.await(shard.Splitter, item.Done, 1)
	if got := h.moves(shard.Splitter); !maps.Equal(got, map[string]int{"start": 1, "done": 1}) {
		t.Errorf("history %v", got)
	}
}

// TestRemovedBefore: a message that was removed by a process that was killed
// before Postgres had the answer to it keeps nobody from applying it, nor what
// comes after (invariant 6).
func TestRemovedBefore(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 2)
	held := h.pull(shard.Splitter, 2)
	h.await(shard.Splitter, item.Started, 2)
	for _, remove := range []func(context.Context, uint64) error{h.stream().DeleteMsg, h.stream().SecureDeleteMsg} {
		meta, err := held[0].Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if err := remove(t.Context(), meta.Sequence.Stream); err != nil {
			t.Fatal(err)
		}
		if err := held[0].NakWithDelay(4 * time.Second); err != nil {
			t.Fatal(err)
		}
		held = held[1:]
	}
	for _, m := range h.pull(shard.Splitter, 2) {
		if got := h.item(m); got.Attempts != 1 {
			t.Errorf("came again as %+v", got)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	h.await(shard.Splitter, item.Done, 2)
}

// TestStale: messages of items that are not to be had are removed, and so is
// what others put on the stream (invariant 7).
func TestStale(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 2)
	h.until("2 messages", func() (string, bool) { return "", h.messages() == 2 })
	if _, err := h.js.Publish(t.Context(), stream.WorkSubject("shard-splitter"), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	// Started beside the queue, by one who did not ask it.
	beside, _, err := open(t, h.nc, h.store.Pool())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := beside.Apply(t.Context(), shard.Splitter, item.Start,
		[]queue.Command{{Name: "a", Part: 1, Worker: "x"}}); err != nil {
		t.Fatal(err)
	}
	h.until("1 message", func() (string, bool) { return "", h.messages() == 1 })
	h.file("b", 1) // the relay goes on behind what was foreign
	for _, m := range h.pull(shard.Splitter, 2) {
		if it := h.item(m); it.Shard != 0 {
			t.Errorf("got %+v", it)
		}
	}
}

// TestStreamMadeAnew: a stream that has lost everything is filled again, with
// sequences that were not used before (invariant 3).
func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 10)
	h.until("10 messages", func() (string, bool) { return "", h.messages() == 10 })
	late := h.pull(shard.Splitter, 1)[0]
	h.await(shard.Splitter, item.Started, 1)
	if err := h.js.DeleteStream(t.Context(), stream.Work); err != nil {
		t.Fatal(err)
	}
	h.until("9 messages", func() (string, bool) {
		s, err := h.js.Stream(t.Context(), stream.Work) // there is none at first
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("%+v", s.CachedInfo().State), s.CachedInfo().State.Msgs == 9
	})
	if first := h.stream().CachedInfo().State.FirstSeq; first < 1000 {
		t.Errorf("the stream goes on at %d", first)
	}
	// The one who had an item when it happened still ends that one.
	if err := late.Ack(); err != nil {
		t.Fatal(err)
	}
	h.await(shard.Splitter, item.Done, 1)
	for _, m := range h.pull(shard.Splitter, 9) {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	h.await(shard.Splitter, item.Done, 10)
}

// TestRestarts: clients work through while the service and NATS stop and start
// at any moment; each item is done once (invariants 1, 2 and 4).
func TestRestarts(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, quick)
	const items = 500
	// so that there is something under way
	slow := func(_ context.Context, _ client.Item) error { time.Sleep(time.Millisecond); return nil }
	for _, stage := range shard.Queues {
		h.work(stage, slow, client.WorkConfig{Concurrency: 4})
	}
	h.file("a", items)
	h.serve() // a second one waits for the lead
	stopFirst := h.stop
	h.until("some done", func() (string, bool) { c := h.statuses(shard.Sender); return "", c["done"] > items/10 })
	h.nats.Stop()
	h.nats.Start()
	h.until("more done", func() (string, bool) { c := h.statuses(shard.Sender); return "", c["done"] > items/3 })
	stopFirst()
	h.until("still more done", func() (string, bool) { c := h.statuses(shard.Sender); return "", c["done"] > items/2 })
	h.nats.Stop()
	h.nats.Start()
	h.await(shard.Sender, item.Done, items)
	for _, stage := range shard.Queues {
		if got := h.moves(stage); got["done"] != items {
			t.Errorf("%s: history %v", stage, got)
		}
	}
	h.until("an empty stream", func() (string, bool) { return "", h.messages() == 0 })
}

// TestHTTP: what is taken over HTTP no daemon gets, and the other way round
// (invariant 5).
func TestHTTP(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 10)
	h.until("10 messages", func() (string, bool) { return "", h.messages() == 10 })
	taken, err := h.hands.Take(t.Context(), shard.Splitter.String(), "http", 4, time.Minute)
	if err != nil || len(taken) != 4 {
		t.Fatalf("took %v, %v", taken, err)
	}
	held := h.pull(shard.Splitter, 3)
	rest, err := h.hands.Take(t.Context(), shard.Splitter.String(), "http", 10, time.Minute)
	if err != nil || len(rest) != 3 {
		t.Fatalf("took %v after %v, %v", rest, taken, err)
	}
	seen := map[int]bool{}
	for _, r := range append(taken, rest...) {
		seen[int(r.Part)] = true
	}
	for _, m := range held {
		it := h.item(m)
		seen[it.Shard] = true
		found, err := h.hands.Withdraw(t.Context(), it.Stage,
			queue.Ref{Item: it.ID, Queue: 1, Generation: it.Generation})
		if found != handout.Held || err != nil {
			t.Errorf("item %d is with a daemon: %v, %v", it.ID, found, err)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d items were handed out, not 10", len(seen))
	}
	h.await(shard.Splitter, item.Done, 3)
}

// TestWithdraw: an item that is started by name leaves the stream (invariant 5).
func TestWithdraw(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 2)
	h.until("2 messages", func() (string, bool) { return "", h.messages() == 2 })
	var id int64
	if err := h.store.Pool().QueryRow(t.Context(),
		"SELECT id FROM millrace.pipeline_tracking WHERE shard = 0").Scan(&id); err != nil {
		t.Fatal(err)
	}
	free, err := h.hands.Withdraw(t.Context(), shard.Splitter.String(), queue.Ref{Item: id, Queue: 1, Generation: 1})
	if free != handout.Free || err != nil {
		t.Fatalf("withdrawn: %v, %v", free, err)
	}
	if _, err := h.store.Apply(t.Context(), shard.Splitter, item.Start,
		[]queue.Command{{ID: id, Generation: 1, Worker: "http"}}); err != nil {
		t.Fatal(err)
	}
	if it := h.item(h.pull(shard.Splitter, 1)[0]); it.Shard != 1 {
		t.Errorf("got %+v", it)
	}
}

// TestSwitches: consumers follow the switches of their stage.
func TestSwitches(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	set := func(sql string) {
		if _, err := h.store.Pool().Exec(t.Context(), "UPDATE millrace.stage SET "+sql+" WHERE stage = 1"); err != nil {
			t.Fatal(err)
		}
	}
	state := func(what string, holds func(*jetstream.ConsumerInfo) bool) {
		h.until(what, func() (string, bool) {
			c, err := h.js.Consumer(t.Context(), stream.Work, shard.Splitter.String())
			return "", err == nil && holds(c.CachedInfo())
		})
	}
	set("paused = true, concurrency = 7")
	state("a pause", func(i *jetstream.ConsumerInfo) bool { return i.Paused && i.Config.MaxAckPending == 7 })
	set("paused = false, concurrency = NULL")
	state("its end", func(i *jetstream.ConsumerInfo) bool { return !i.Paused && i.Config.MaxAckPending == -1 })
}

// TestPause: comparisons take a twentieth of the time at most, and one that was held
// up does not put the next off: mending is due within a second (invariant 7).
func TestPause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ took, last, want time.Duration }{
		{time.Millisecond, time.Millisecond, 300 * time.Millisecond},
		{20 * time.Second, 10 * time.Millisecond, 300 * time.Millisecond},
		{10 * time.Millisecond, 20 * time.Second, 300 * time.Millisecond},
		{2 * time.Second, 3 * time.Second, 38 * time.Second},
		{20 * time.Second, 0, 300 * time.Millisecond}, // the first one
	} {
		if got := (work.Config{}).Pause(c.took, c.last); got != c.want {
			t.Errorf("after %s and %s: %s, not %s", c.last, c.took, got, c.want)
		}
	}
}

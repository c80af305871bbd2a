package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// work runs a client until the returned function stops it.
func (h *house) work(stage shard.Stage, handler client.Handler, cfg client.WorkConfig) func() {
	nc := h.nats.Connect()
	return h.run(func(ctx context.Context) error { return client.Work(ctx, nc, stage.String(), handler, cfg) })
}

// TestClient: two clients work all items of all stages, each once (invariant 5).
func TestClient(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	var mu sync.Mutex
	calls := map[string]int{}
	handler := func(_ context.Context, item client.Item) error {
		mu.Lock()
		defer mu.Unlock()
		calls[fmt.Sprint(item.Stage, item.Filename, item.Shard)]++
		return nil
	}
	for _, stage := range shard.Queues {
		for range 2 {
			h.work(stage, handler, client.WorkConfig{Concurrency: 20})
		}
	}
	for i := range 20 {
		h.file(fmt.Sprintf("f%02d", i), 50)
	}
	h.await(shard.Sender, item.Done, 1000)
	mu.Lock()
	defer mu.Unlock()
	for name, n := range calls {
		if n != 1 {
			t.Errorf("%s was worked %d times", name, n)
		}
	}
	if len(calls) != 3000 {
		t.Errorf("%d calls, not 3000", len(calls))
	}
	for _, stage := range shard.Queues {
		if got := h.moves(stage); got["done"] != 1000 {
			t.Errorf("%s: history %v", stage, got)
		}
	}
	h.until("an empty stream", func() (string, bool) { return "", h.messages() == 0 })
}

// TestClientErrors: errors and panics are tried again, permanent ones are not.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	attempts := [4]atomic.Int32{}
	handler := func(_ context.Context, item client.Item) error {
		n := attempts[item.Shard].Add(1)
		if int(n) != item.Attempt {
			t.Errorf("shard %d: attempt %d is said to be %d", item.Shard, n, item.Attempt)
		}
		switch {
		case item.Shard == 1 && n < 3:
			return errors.New("not yet")
		case item.Shard == 2:
			return client.Permanent(errors.New("never"))
		case item.Shard == 3 && n == 1:
			panic("oh")
		}
		return nil
	}
	h.work(shard.Splitter, handler, client.WorkConfig{Backoff: func(int) time.Duration {
		return 10 * time.Millisecond
	}})
	h.file("a", 4)
	h.await(shard.Splitter, item.Done, 3)
	h.await(shard.Splitter, item.Failed, 1)
	for i, want := range []int32{1, 3, 1, 2} {
		if got := attempts[i].Load(); got != want {
			t.Errorf("shard %d: %d attempts, not %d", i, got, want)
		}
	}
}

// TestFullStage: an item that clients could not start, since its stage was full,
// for as often as the server delivers it, is worked when there is room, and does
// not fail (invariant 6). On a machine that is slow to refuse it, it may be taken
// for one that a plain daemon has, and count as started once more.
func TestFullStage(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	if _, err := h.store.Pool().Exec(t.Context(),
		"UPDATE millrace.stage SET max_attempts = 2, concurrency = 1"); err != nil {
		t.Fatal(err)
	}
	h.until("2 deliveries at most", func() (string, bool) {
		c, err := h.js.Consumer(t.Context(), stream.Work, shard.Splitter.String())
		return "", err == nil && c.CachedInfo().Config.MaxDeliver == 2
	})
	h.file("a", 2)
	room := make(chan struct{})
	h.work(shard.Splitter, func(context.Context, client.Item) error {
		<-room
		return nil
	}, client.WorkConfig{Concurrency: 2})
	h.until("a third message", func() (string, bool) {
		info, err := h.stream().Info(t.Context())
		return "", err == nil && info.State.LastSeq > 2
	})
	close(room)
	h.await(shard.Splitter, item.Done, 2)
	if got := h.moves(shard.Splitter); got["done"] != 2 || got["fail"] != 0 {
		t.Errorf("history %v", got)
	}
}

// TestClientStops: what has not begun is given back and counts no attempt, and
// so is what the end of the grace has interrupted.
func TestClientStops(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 30)
	begun := make(chan struct{}, 100)
	stop := h.work(shard.Splitter, func(ctx context.Context, _ client.Item) error {
		begun <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}, client.WorkConfig{Concurrency: 5, Grace: 50 * time.Millisecond})
	for range 5 {
		<-begun
	}
	stop()
	if got := h.statuses(shard.Splitter); got["new"] != 30 {
		t.Errorf("after the stop: %v", got)
	}
	h.work(shard.Splitter, func(_ context.Context, item client.Item) error {
		if item.Attempt != 1 {
			t.Errorf("attempt %d", item.Attempt)
		}
		return nil
	}, client.WorkConfig{})
	h.await(shard.Splitter, item.Done, 30)
}

// TestClientDies: items of a client that is heard of no more go to another,
// and it can't end them any more (invariants 4 and 5).
func TestClientDies(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 5)
	nc := h.nats.Connect()
	held := make(chan struct{}, 10)
	lost := make(chan error, 10)
	dead := h.run(func(ctx context.Context) error {
		err := client.Work(ctx, nc, shard.Splitter.String(), func(ctx context.Context, _ client.Item) error {
			held <- struct{}{}
			<-ctx.Done()
			lost <- context.Cause(ctx)
			return nil
		}, client.WorkConfig{Lease: 5 * time.Second, Grace: time.Millisecond})
		if err == nil {
			t.Error("a worker without a connection goes on")
		}
		return nil
	})
	for range 5 {
		<-held
	}
	nc.Close()
	h.work(shard.Splitter, func(_ context.Context, item client.Item) error {
		if item.Attempt != 2 {
			t.Errorf("attempt %d", item.Attempt)
		}
		return nil
	}, client.WorkConfig{})
	h.await(shard.Splitter, item.Done, 5)
	dead()
	if got := h.moves(shard.Splitter); !maps.Equal(got, map[string]int{"start": 10, "expire": 5, "done": 5}) {
		t.Errorf("history %v", got)
	}
}

// TestLeaseIsKept: an item whose handler takes longer than the lease stays with
// its worker.
func TestLeaseIsKept(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 1)
	h.work(shard.Splitter, func(ctx context.Context, _ client.Item) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(11 * time.Second): // the work
			return nil
		}
	}, client.WorkConfig{Lease: 10 * time.Second})
	h.await(shard.Splitter, item.Done, 1)
	if got := h.moves(shard.Splitter); !maps.Equal(got, map[string]int{"start": 1, "done": 1}) {
		t.Errorf("history %v", got)
	}
}

// TestRepeatedTakeover: a client that asks again to start an item, which it has
// taken over from a plain daemon without hearing so, still has it. Else the item
// would wait until its lease is over (invariants 4 and 5).
func TestRepeatedTakeover(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	h.file("a", 1)
	it := h.item(h.pull(shard.Splitter, 1)[0])
	h.await(shard.Splitter, item.Started, 1) // as if by a plain daemon
	start := func(worker string) stream.WorkVerdict {
		t.Helper()
		request, err := json.Marshal(stream.WorkMoveBatch{
			Worker: worker, Stage: it.Stage, Lease: time.Minute,
			Moves: []stream.WorkMove{{Kind: stream.MoveStart, ID: it.ID, Generation: it.Generation}},
		})
		if err != nil {
			t.Fatal(err)
		}
		m, err := h.nc.Request(stream.WorkMoves, request, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var answer stream.WorkVerdicts
		if err := json.Unmarshal(m.Data, &answer); err != nil || len(answer.Verdicts) != 1 {
			t.Fatalf("%s: %v", m.Data, err)
		}
		return answer.Verdicts[0]
	}
	first := start("a")
	if first.Verdict != stream.VerdictMade {
		t.Fatalf("the item is not taken over: %+v", first)
	}
	if again := start("a"); again != first {
		t.Errorf("the repeat is answered by %+v, not %+v", again, first)
	}
	if other := start("b"); other.Verdict != stream.VerdictGone {
		t.Errorf("another client is answered by %+v", other)
	}
}

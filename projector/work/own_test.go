package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// own makes a user-defined queue, and has clients' items come in.
func (h *house) own(name string, change ...func(*queue.Settings)) *userqueue.Store {
	h.Helper()
	s, err := userqueue.New(h.store.Queues())
	if err != nil {
		h.Fatal(err)
	}
	v := queue.Settings{Name: name, MaxAttempts: 5, LeaseS: h.ackWait.Seconds()}
	for _, c := range change {
		c(&v)
	}
	if made, err := s.Create(h.Context(), v); err != nil || !made {
		h.Fatal(made, err)
	}
	if err := h.hands.Ensure(h.Context(), name, time.Duration(v.LeaseS*float64(time.Second))); err != nil {
		h.Fatal(err)
	}
	h.run(func(ctx context.Context) error { return s.Serve(ctx, h.nc, testLog(h.T)) })
	return s
}

// awaitOwn waits until as many items of a queue have a state.
func (h *house) awaitOwn(s *userqueue.Store, name, state string, n int) {
	h.Helper()
	v, err := s.Get(h.Context(), name)
	if err != nil {
		h.Fatal(err)
	}
	h.until(fmt.Sprintf("%d items %s of %s", n, state, name), func() (string, bool) {
		items, err := s.Items(h.Context(), userqueue.Page{Queue: v.ID, State: state, Limit: 10_000})
		return fmt.Sprint(len(items), err), len(items) == n
	})
}

// TestOwnQueueClient: clients work every item of a user-defined queue once,
// with its payload, while services are killed (invariants 1 to 5).
func TestOwnQueueClient(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	var mu sync.Mutex
	calls := map[string]int{}
	for range 2 {
		nc := h.nats.Connect()
		h.run(func(ctx context.Context) error {
			return client.Work(ctx, nc, "mail", func(_ context.Context, it client.Item) error {
				var n int
				if err := json.Unmarshal(it.Payload, &n); err != nil || fmt.Sprint("k", n) != it.Key {
					return client.Permanent(fmt.Errorf("payload %s of %s: %w", it.Payload, it.Key, err))
				}
				mu.Lock()
				defer mu.Unlock()
				if calls[it.Key]++; n%50 == 0 && calls[it.Key] == 1 { // it may be a later attempt: see TestFullStage
					return client.After(0, errors.New("once more"))
				}
				return nil
			}, client.WorkConfig{Concurrency: 20})
		})
	}
	for part := range 10 {
		var items []client.NewItem
		for i := range 100 {
			n := part*100 + i
			items = append(items, client.NewItem{Payload: n, Key: fmt.Sprint("k", n)})
		}
		added, err := client.Enqueue(t.Context(), h.nc, "mail", items...)
		if err != nil || len(added) != 100 || added[0].Existing {
			t.Fatal(added, err)
		}
		if part%4 == 1 { // another leader takes over
			h.stop()
			h.serve()
		}
	}
	h.awaitOwn(s, "mail", "done", 1000)
	mu.Lock()
	defer mu.Unlock()
	for n := range 1000 {
		want := 1
		if n%50 == 0 {
			want = 2
		}
		if got := calls[fmt.Sprint("k", n)]; got != want {
			t.Errorf("item %d was worked %d times, not %d", n, got, want)
		}
	}
	h.until("an empty stream", func() (string, bool) { return fmt.Sprint(h.messages()), h.messages() == 0 })
	if _, err := client.Enqueue(t.Context(), h.nc, "nowhere", client.NewItem{}); !errors.Is(err, client.ErrRefused) {
		t.Error(err)
	}
}

// TestProgress: what a handler says last stands at its item while it is at work, and is
// cut; what it says elsewhere is nothing.
func TestProgress(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	if _, err := client.Enqueue(t.Context(), h.nc, "mail", client.NewItem{}, client.NewItem{}); err != nil {
		t.Fatal(err)
	}
	client.Progress(t.Context(), "nobody's")
	begun, say, end := make(chan struct{}, 2), make(chan string), make(chan struct{})
	h.run(func(ctx context.Context) error {
		return client.Work(ctx, h.nc, "mail", func(ctx context.Context, it client.Item) error {
			begun <- struct{}{}
			if it.ID == 2 {
				<-end
				return nil
			}
			for text := range say {
				client.Progress(ctx, text)
			}
			return nil
		}, client.WorkConfig{Concurrency: 2})
	})
	<-begun
	<-begun
	v, err := s.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	shows := func(want ...string) {
		t.Helper()
		h.until(fmt.Sprint("progress ", want), func() (string, bool) {
			items, err := s.Items(t.Context(), userqueue.Page{Queue: v.ID, Limit: 10})
			var got []string
			for _, it := range items {
				if (it.Progress == "") != (it.ProgressAt == nil) {
					t.Errorf("%q at %v", it.Progress, it.ProgressAt)
				}
				got = append(got, it.Progress)
			}
			return fmt.Sprint(got, err), slices.Equal(got, want)
		})
	}
	say <- "page 1"
	say <- "page 2"
	shows("page 2", "")
	say <- strings.Repeat("ä\x00", 200)
	shows(strings.Repeat("ä\uFFFD", 100), "")
	close(say)
	h.awaitOwn(s, "mail", "done", 1)
	shows("", "")
	close(end)
	h.awaitOwn(s, "mail", "done", 2)
}

// TestOwnQueuePlain: a plain daemon's answers are moves of items of a user-defined queue
// (invariants 4 and 6), and a body says what take would.
func TestOwnQueuePlain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick)
	s := h.own("mail")
	if _, err := client.Enqueue(t.Context(), h.nc, "mail", client.NewItem{Payload: 1, Key: "a", Group: "g"},
		client.NewItem{Payload: 2}); err != nil {
		t.Fatal(err)
	}
	msgs := h.pullOwn("mail", 2)
	it, err := stream.ParseQueueItem(msgs[0].Data())
	if err != nil || it.Key != "a" || it.Group != "g" || string(it.Payload) != "1" || it.Attempt != 1 ||
		it.Queue != "mail" {
		t.Errorf("%+v, %v", it, err)
	}
	if err := errors.Join(msgs[0].Ack(), msgs[1].TermWithReason("no")); err != nil {
		t.Fatal(err)
	}
	h.awaitOwn(s, "mail", "done", 1)
	h.awaitOwn(s, "mail", "failed", 1)
}

// pullOwn is what a plain daemon does: it waits for n messages.
func (h *house) pullOwn(name string, n int) []jetstream.Msg {
	h.Helper()
	c, err := h.js.Consumer(h.Context(), stream.Work, name)
	if err != nil {
		h.Fatal(err)
	}
	var msgs []jetstream.Msg
	for len(msgs) < n {
		batch, err := c.Fetch(n-len(msgs), jetstream.FetchMaxWait(20*time.Second))
		if err != nil {
			h.Fatal(err)
		}
		before := len(msgs)
		for m := range batch.Messages() {
			msgs = append(msgs, m)
		}
		if len(msgs) == before {
			h.Fatalf("pulled %d messages of %d: %v", len(msgs), n, batch.Error())
		}
	}
	return msgs
}

// TestPriorityOfPlain: an item of a higher priority goes before all that waits,
// for plain daemons too, though it comes last.
func TestPriorityOfPlain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	add := func(priority, n int) {
		items := make([]client.NewItem, n)
		for i := range items {
			items[i] = client.NewItem{Payload: i, Priority: priority}
		}
		if _, err := client.Enqueue(t.Context(), h.nc, "mail", items...); err != nil {
			t.Fatal(err)
		}
	}
	outbox := func() (n int) {
		if err := h.store.Pool().QueryRow(t.Context(), "SELECT count(*) FROM millrace.outbox").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	add(0, 300)
	h.until("300 messages", func() (string, bool) { return fmt.Sprint(h.messages()), h.messages() == 300 })
	held := h.pullOwn("mail", 10)
	add(3, 20)
	add(7, 20)
	h.until("the urgent ones on the stream", func() (string, bool) {
		return fmt.Sprint(outbox(), h.messages()), outbox() < 300 && h.messages() >= 100
	})
	h.awaitOwn(s, "mail", "started", 10)
	var got []int16
	for _, m := range h.pullOwn("mail", 60) {
		it, err := stream.ParseQueueItem(m.Data())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.Priority)
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range got {
		if want := map[bool]int16{true: 7, false: 3}[i < 20]; i < 40 && p != want || i >= 40 && p != 0 {
			t.Fatalf("item %d of those handed out has the priority %d: %v", i, p, got)
		}
	}
	for _, m := range held {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	for range 27 {
		for _, m := range h.pullOwn("mail", 10) {
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.awaitOwn(s, "mail", "done", 340)
}

// TestEnqueueTx: items that were added in a transaction are there when it has
// committed, and were never there when it has not.
func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	for _, end := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
	} {
		tx, err := h.store.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		added, err := client.EnqueueTx(t.Context(), tx, "mail", client.NewItem{Payload: "x", Key: "a"},
			client.NewItem{Payload: "y", Key: "a"})
		if err != nil || len(added) != 2 || added[0].Existing || !added[1].Existing || added[0].ID != added[1].ID {
			t.Fatal(added, err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	m := h.pullOwn("mail", 1)[0]
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	h.awaitOwn(s, "mail", "done", 1)
	h.awaitOwn(s, "mail", "", 1)
}

package work_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// window is how many messages of a queue are put on the stream before they are
// handed out.
const window = 1000

// backlog makes items ready for the first stage: as many as go on the stream, and
// some hundreds that wait in the outbox. It returns how many do.
func (h *house) backlog() (waiting int) {
	h.Helper()
	const files, shards = (window + 900) / 50, 50 // no more than can be offered at once
	for i := range files {
		h.file(fmt.Sprintf("f%02d", i), shards)
	}
	return h.full(files * shards)
}

// full waits until no more of the items that are ready go on the stream, and returns how
// many wait. The server counts messages some time after it has stored them: a hundred more
// than the window were seen on the stream.
func (h *house) full(items int) (waiting int) {
	h.Helper()
	same := 0
	h.until("a full stream", func() (string, bool) {
		n, m := h.outbox(), h.messages()
		if same++; n != waiting || n+m != items || m < window {
			same = 0
		}
		waiting = n
		return fmt.Sprint(n, m), same > 10
	})
	if waiting < 50 && items > window+50 {
		h.Fatalf("of %d items %d wait", items, waiting)
	}
	return waiting
}

func (h *house) outbox() int { return h.counts("SELECT 'all', count(*) FROM millrace.outbox")["all"] }

// tell sends a request as a client does.
func (h *house) tell(b stream.WorkMoveBatch) (answer stream.WorkVerdicts) {
	h.Helper()
	b.Lease = time.Hour
	request, err := json.Marshal(b)
	if err != nil {
		h.Fatal(err)
	}
	m, err := h.nc.Request(stream.WorkMoves, request, 20*time.Second)
	if err != nil {
		h.Fatal(err)
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Error != "" {
		h.Fatalf("%s: %v", m.Data, err)
	}
	return answer
}

// offers asks for offers of a queue.
func (h *house) offers(queue string, n int) (items []stream.WorkItem) {
	h.Helper()
	for _, body := range h.tell(stream.WorkMoveBatch{Worker: "a", Stage: queue, Offers: n}).Items {
		it, err := stream.ParseWorkItem(body)
		if err != nil {
			h.Fatal(err)
		}
		items = append(items, it)
	}
	return items
}

// offered asks until it has been offered n items, each of which it names once. An
// answer that is late is lost, and its items are offered again some seconds later.
func (h *house) offered(queue string, n int) (items []stream.WorkItem) {
	h.Helper()
	seen := map[int64]bool{}
	h.until(fmt.Sprintf("%d offers", n), func() (string, bool) {
		for _, it := range h.offers(queue, n) {
			if !seen[it.ID] {
				seen[it.ID] = true
				items = append(items, it)
			}
		}
		return fmt.Sprint(len(items)), len(items) >= n
	})
	return items
}

// startOffered starts an item as one that was offered.
func (h *house) startOffered(worker string, it stream.WorkItem) stream.WorkVerdict {
	h.Helper()
	answer := h.tell(stream.WorkMoveBatch{
		Worker: worker, Stage: it.Stage,
		Moves: []stream.WorkMove{{Kind: stream.MoveStart, ID: it.ID, Generation: it.Generation, Offered: true}},
	})
	if len(answer.Verdicts) != 1 {
		h.Fatalf("%+v", answer)
	}
	return answer.Verdicts[0]
}

// TestOffers: what is in the outbox is offered, each item to one at a time; whoever
// starts it first has it, and its message is not published. Nobody gets an item so
// that has a message (invariant 5).
func TestOffers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	waiting := h.backlog()
	stage := shard.Splitter.String()
	begin := time.Now()
	first, others := h.offered(stage, 1), h.offers(stage, 50)
	early := time.Since(begin) < 5*time.Second // what was offered is not offered again so soon
	it := first[0]
	for _, o := range others {
		if o.ID == it.ID && early || o.Stage != stage || o.Filename == "" || o.Attempts != 0 {
			t.Errorf("offered after item %d: %+v", it.ID, o)
		}
	}
	if n := h.outbox(); n != waiting {
		t.Errorf("offers have changed the outbox: it has %d entries, not %d", n, waiting)
	}
	made := h.startOffered("a", it)
	if made.Verdict != stream.VerdictMade || made.Generation != it.Generation+1 || made.Attempts != 1 {
		t.Fatalf("the start of an offer is answered by %+v", made)
	}
	if again := h.startOffered("a", it); again != made {
		t.Errorf("the repeat is answered by %+v, not %+v", again, made)
	}
	if other := h.startOffered("b", it); other.Verdict != stream.VerdictGone {
		t.Errorf("another client is answered by %+v", other)
	}
	if n := h.outbox(); n != waiting-1 {
		t.Errorf("the outbox has %d entries, not %d", n, waiting-1)
	}
	pulled := h.item(h.pull(shard.Splitter, 1)[0])
	if got := h.startOffered("a", pulled); got.Verdict != stream.VerdictGone {
		t.Errorf("the start of an item that has a message is answered by %+v", got)
	}
	h.until("the plain daemon's item started", func() (string, bool) {
		n := h.counts("SELECT 'plain', count(*) FROM millrace.claim WHERE plain")["plain"]
		return fmt.Sprint(n), n == 1
	})
	if got := h.startOffered("a", pulled); got.Verdict != stream.VerdictGone {
		t.Errorf("an item is taken from a plain daemon: %+v", got)
	}
}

// TestOffersEnd: what nobody starts comes to others, also when the leader has ended,
// and what was started does not.
func TestOffersEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	waiting := h.backlog()
	items := h.messages() + waiting
	offered := h.offered(shard.Splitter.String(), waiting)
	for _, it := range offered[:40] {
		if v := h.startOffered("a", it); v.Verdict != stream.VerdictMade {
			t.Fatalf("%+v", v)
		}
	}
	h.stop()
	h.serve()
	var mu sync.Mutex
	calls := map[string]int{}
	h.work(shard.Splitter, func(_ context.Context, it client.Item) error {
		mu.Lock()
		defer mu.Unlock()
		calls[fmt.Sprint(it.Filename, it.Shard)]++
		return nil
	}, client.WorkConfig{Concurrency: 500, Lease: time.Hour})
	h.await(shard.Splitter, item.Done, items-40)
	mu.Lock()
	defer mu.Unlock()
	for name, n := range calls {
		if n != 1 {
			t.Errorf("%s was worked %d times", name, n)
		}
	}
	for _, it := range offered[:40] {
		if n := calls[fmt.Sprint(it.Filename, it.Shard)]; n != 0 {
			t.Errorf("an item of another was worked: %+v", it)
		}
	}
	if got := h.statuses(shard.Splitter)["started"]; got != 40 {
		t.Errorf("%d items are started, not 40", got)
	}
}

// TestOffersOfLimitedQueue: an item that was offered is not started once its queue is
// paused or has a limit, and its entry stays in the outbox.
func TestOffersOfLimitedQueue(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	waiting := h.backlog()
	it := h.offered(shard.Splitter.String(), 1)[0]
	for _, c := range []struct {
		set  string
		want stream.Verdict
	}{{"paused = true", stream.VerdictPaused}, {"paused = false, concurrency = 5000", stream.VerdictFull}} {
		if _, err := h.store.Pool().Exec(t.Context(), "UPDATE millrace.stage SET "+c.set); err != nil {
			t.Fatal(err)
		}
		if got := h.startOffered("a", it); got.Verdict != c.want {
			t.Errorf("%s: the start is answered by %+v", c.set, got)
		}
		if n := h.outbox(); n != waiting {
			t.Errorf("%s: the outbox has %d entries, not %d", c.set, n, waiting)
		}
	}
	h.until("no offers", func() (string, bool) {
		n := len(h.offers(it.Stage, 1))
		return fmt.Sprint(n), n == 0
	})
}

// TestOffersFitAMessage: items with much to say are offered part by part.
func TestOffersFitAMessage(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	payload := strings.Repeat("x", 60<<10)
	enqueue := func(n int, payload any) {
		t.Helper()
		items := make([]client.NewItem, n)
		for i := range items {
			items[i] = client.NewItem{Payload: payload}
		}
		if _, err := client.Enqueue(t.Context(), h.nc, "mail", items...); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(window, nil)
	enqueue(10, payload)
	enqueue(10, payload)
	waiting := h.full(window + 20)
	v, err := s.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	started := 0
	h.until("all started", func() (string, bool) {
		items := h.tell(stream.WorkMoveBatch{Worker: "a", Stage: "mail", Offers: 20}).Items
		if len(items) > 8 { // half a MiB
			t.Fatalf("%d items in an answer", len(items))
		}
		for _, body := range items {
			it, err := stream.ParseQueueItem(body)
			if err != nil || len(it.Payload) != len(payload)+2 {
				t.Fatalf("item %d with %d bytes: %v", it.ID, len(it.Payload), err)
			}
			results, err := h.store.Queues().StartHanded(t.Context(), v.ID, []queue.Command{
				{ID: it.ID, Generation: it.Generation, Worker: "a", Lease: time.Hour, Offered: true},
			})
			if err != nil || results[0].Outcome != item.Changed {
				t.Fatal(results, err)
			}
			started++
		}
		return fmt.Sprint(started), started == waiting
	})
}

package work_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// running counts what workers have, in all and by group, and how often each item
// was brought to its end.
type running struct {
	mu     sync.Mutex
	all    int
	most   int
	by     map[string]int
	mostBy map[string]int
	ended  map[int64]int
}

func (r *running) begin(group string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all++
	r.by[group]++
	r.most, r.mostBy[group] = max(r.most, r.all), max(r.mostBy[group], r.by[group])
}

// end is called before anybody is told.
func (r *running) end(group string, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	r.by[group]--
	if id != 0 {
		r.ended[id]++
	}
}

// TestLimits: plain daemons, clients and takers over HTTP work the same queue at
// the same time, give items back and end them, while leaders change. Never are
// more items out than the queue and their group allow, every item ends once, and
// nothing is left behind that counts.
func TestLimits(t *testing.T) {
	t.Parallel()
	const concurrency, perGroup, items, groups = 9, 2, 300, 7
	// A message that the server sends just when a pull ends comes again after this.
	h := newHouse(t, 10*time.Second)
	s := h.own("mail", func(v *queue.Settings) {
		v.MaxAttempts, v.Concurrency, v.PerGroup = 0, concurrency, perGroup
	})
	r := &running{by: map[string]int{}, mostBy: map[string]int{}, ended: map[int64]int{}}
	work := func() bool { // whether it is given back
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond) // the work
		return rand.IntN(5) == 0
	}
	nc := h.nats.Connect()
	h.run(func(ctx context.Context) error {
		return client.Work(ctx, nc, "mail", func(_ context.Context, it client.Item) error {
			r.begin(it.Group)
			if work() {
				r.end(it.Group, 0)
				return client.After(0, errors.New("again"))
			}
			r.end(it.Group, it.ID)
			return nil
		}, client.WorkConfig{Concurrency: 10})
	})
	h.run(func(ctx context.Context) error { return h.plainDaemon(ctx, r, work) })
	h.run(func(ctx context.Context) error { return h.httpTaker(ctx, s, r, work) })
	for part := range 6 {
		var add []client.NewItem
		for i := range items / 6 {
			it := client.NewItem{Payload: i, Group: fmt.Sprint("g", rand.IntN(groups)), Priority: rand.IntN(3)}
			if it.Group == "g0" {
				it.Group = ""
			}
			add = append(add, it)
		}
		if _, err := client.Enqueue(t.Context(), h.nc, "mail", add...); err != nil {
			t.Fatal(err)
		}
		if part%3 == 1 { // another leader takes over
			h.stop()
			h.serve()
		}
	}
	h.awaitOwn(s, "mail", "done", items)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.most > concurrency || r.most < 3 {
		t.Errorf("%d items were out, and %d may be", r.most, concurrency)
	}
	for g, n := range r.mostBy {
		if g != "" && n > perGroup {
			t.Errorf("%d items of group %s were out, and %d may be", n, g, perGroup)
		}
	}
	for id, n := range r.ended {
		if n != 1 {
			t.Errorf("item %d ended %d times", id, n)
		}
	}
	if len(r.ended) != items {
		t.Errorf("%d items ended of %d", len(r.ended), items)
	}
	if left := h.counts(
		"SELECT 'slots', count(*) FROM millrace.slot UNION ALL SELECT 'parked', count(*) FROM millrace.parked",
	); left["slots"]+left["parked"] > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// plainDaemon pulls and acknowledges.
func (h *house) plainDaemon(ctx context.Context, r *running, work func() bool) error {
	c, err := h.js.Consumer(ctx, stream.Work, "mail")
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		batch, err := c.Fetch(3, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			continue
		}
		var had []jetstream.Msg
		for m := range batch.Messages() {
			it, err := stream.ParseQueueItem(m.Data())
			if err != nil {
				return err
			}
			r.begin(it.Group)
			had = append(had, m)
		}
		for _, m := range had {
			it, _ := stream.ParseQueueItem(m.Data())
			if work() {
				r.end(it.Group, 0)
				err = m.NakWithDelay(1100 * time.Millisecond) // a delay of more than a second makes a new message
			} else {
				r.end(it.Group, it.ID)
				err = m.Ack()
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// httpTaker takes and ends items as the handlers of HTTP do.
func (h *house) httpTaker(ctx context.Context, s *userqueue.Store, r *running, work func() bool) error {
	v, err := s.Get(ctx, "mail")
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		taken, err := h.hands.Take(ctx, "mail", "http", 3, time.Minute)
		if err != nil {
			continue // no consumer for a moment
		}
		for _, it := range taken {
			stored, err := s.Items(ctx, userqueue.Page{Queue: v.ID, IDs: []int64{it.ID}, Limit: 1})
			if err != nil || len(stored) != 1 {
				return err
			}
			group := stored[0].Group
			r.begin(group)
			move, id := item.Complete, it.ID
			if work() {
				move, id = item.Release, 0
			}
			r.end(group, id)
			command := queue.Command{ID: it.ID, Generation: it.Generation, Worker: "http"}
			if _, err := s.Queues().Apply(ctx, v.ID, move, []queue.Command{command}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// TestLimitsChange: a limit that is set holds for what is not out, one that is
// lowered when items come in, and one that is taken away lets all out.
func TestLimitsChange(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail")
	v, err := s.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	set := func(perGroup int) {
		t.Helper()
		if _, err := s.Queues().Set(t.Context(), v.ID, queue.Set{PerGroup: &perGroup}); err != nil {
			t.Fatal(err)
		}
	}
	grouped := func(n int) {
		t.Helper()
		items := make([]client.NewItem, n)
		for i := range items {
			items[i].Group = "g"
		}
		if _, err := client.Enqueue(t.Context(), h.nc, "mail", items...); err != nil {
			t.Fatal(err)
		}
	}
	onStream := func(n int) {
		t.Helper()
		h.until(fmt.Sprint(n, " messages"), func() (string, bool) {
			return fmt.Sprint(h.messages()), h.messages() == n
		})
	}
	grouped(3)
	msgs := h.pullOwn("mail", 3)
	h.awaitOwn(s, "mail", "started", 3)
	set(2)
	grouped(4)
	for i, m := range msgs {
		h.until("what is over the limit, parked", func() (string, bool) {
			c := h.counts("SELECT 'parked', count(*) FROM millrace.parked")
			return fmt.Sprint(c), c["parked"] == 4-max(0, i-1)
		})
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	onStream(2)
	// A cancelled item makes room, whether it is out or waits.
	if n, err := s.Cancel(t.Context(), v.ID, "g", "", 1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	h.until("the next one out", func() (string, bool) {
		c := h.counts("SELECT 'parked', count(*) FROM millrace.parked")
		return fmt.Sprint(c), c["parked"] == 1
	})
	set(0)
	h.until("none parked", func() (string, bool) {
		c := h.counts(
			"SELECT 'parked', count(*) FROM millrace.parked UNION ALL SELECT 'slots', count(*) FROM millrace.slot",
		)
		return fmt.Sprint(c), c["parked"] == 0 && c["slots"] == 0
	})
	// The message of the cancelled item may still be on the stream, and be pulled.
	all := &running{by: map[string]int{}, mostBy: map[string]int{}, ended: map[int64]int{}}
	h.run(func(ctx context.Context) error { return h.plainDaemon(ctx, all, func() bool { return false }) })
	h.awaitOwn(s, "mail", "done", 6)
	onStream(0)
}

// TestRate: the starts of items of a key keep to its rate, by the record, whoever
// takes them and however they come again.
func TestRate(t *testing.T) {
	t.Parallel()
	h := newHouse(t, time.Minute)
	s := h.own("mail", func(v *queue.Settings) { v.MaxAttempts, v.RatePerKey = 0, queue.Rate{Count: 2, PerS: 1} })
	nc := h.nats.Connect()
	h.run(func(ctx context.Context) error {
		return client.Work(ctx, nc, "mail", func(context.Context, client.Item) error {
			if rand.IntN(3) == 0 {
				return client.After(0, errors.New("again"))
			}
			return nil
		}, client.WorkConfig{Concurrency: 4})
	})
	const most = 12
	added := 0
	for begin := time.Now(); added < most && time.Since(begin) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		for _, key := range []string{"a", "b", "c"} {
			out, err := client.Enqueue(t.Context(), h.nc, "mail", client.NewItem{Key: key})
			if err != nil {
				t.Fatal(err)
			}
			if !out[0].Existing {
				added++
			}
		}
	}
	h.awaitOwn(s, "mail", "done", added)
	broken := h.counts(`SELECT key, count(*) FROM (
		SELECT i.key, h.at, lag(h.at, 2) OVER (PARTITION BY i.key ORDER BY h.at) AS before
		FROM millrace.history AS h JOIN millrace.item AS i ON i.id = h.item_id WHERE h.move = 'start'
	) AS s WHERE at < before + interval '1 second' GROUP BY key`)
	if len(broken) > 0 || added < 6 {
		t.Errorf("%d items; starts beyond the rate by key: %v", added, broken)
	}
}

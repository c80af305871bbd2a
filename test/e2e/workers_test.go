package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/client"
)

// crawlOf is the payload of an item: how long its crawl takes, and what it finds.
type crawlOf struct {
	MS       int64 `json:"ms"`
	Articles int   `json:"articles"`
}

// goWorker works the queue pages as docs/queues.md prints it. It stops when ctx ends, and
// dies when its connection is closed.
func (s *server) goWorker(ctx context.Context, t *testing.T) (nc *nats.Conn, ended chan error) {
	t.Helper()
	nc, err := nats.Connect(s.natsURL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ended = make(chan error, 1)
	go func() {
		ended <- client.Work(ctx, nc, "pages", func(ctx context.Context, item client.Item) error {
			var c crawlOf
			if err := json.Unmarshal(item.Payload, &c); err != nil {
				return client.Permanent(err)
			}
			client.Progress(ctx, "page 1")
			select {
			case <-time.After(time.Duration(c.MS) * time.Millisecond):
				return client.SetResult(ctx, map[string]int{"articles_count": c.Articles})
			case <-ctx.Done():
				return ctx.Err()
			}
		}, client.WorkConfig{Concurrency: 2})
	}()
	return nc, ended
}

// TestWorkers: of crawls that take from a thirtieth of a lease to four leases each is done,
// with what it found, while Go workers stop and die, and Millrace is killed. With
// MILLRACE_LONG=1 the lease is 30 s, and crawls take 1 s to 2 minutes.
func TestWorkers(t *testing.T) {
	t.Parallel()
	s := up(t)
	lease, limit := 2*time.Second, waitLimit
	if os.Getenv("MILLRACE_LONG") != "" {
		lease, limit = 30*time.Second, 20*time.Minute
	}
	post := func(path, body string) {
		t.Helper()
		if status, _, answer := s.post(path, "application/json", body); status != http.StatusCreated {
			t.Fatalf("POST %s: %d %s", path, status, answer)
		}
	}
	post("/queues", fmt.Sprintf(`{"name":"pages","lease_s":%g}`, lease.Seconds()))
	const crawls = 30
	var items []string
	for i := range crawls {
		ms := lease.Milliseconds() * int64(1+6*(i%5)) / 30
		if i%10 == 0 {
			ms = 4 * lease.Milliseconds()
		}
		items = append(items, fmt.Sprintf(`{"payload":{"ms":%d,"articles":%d}}`, ms, i+1))
	}
	post("/queues/pages/items", `{"items":[`+strings.Join(items, ",")+`]}`)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	dying, dead := s.goWorker(ctx, t)
	_, stopped := s.goWorker(stopping, t)
	_, lasting := s.goWorker(ctx, t)
	of := func(state string) []pageItem {
		return get[struct{ Items []pageItem }](s, "/queues/pages/items", "limit=1000&state="+state).Items
	}
	poll(t, limit, "crawls to begin", func() bool { return len(of("started")) >= 3 })
	dying.Close()
	if err := <-dead; err == nil {
		t.Error("a worker whose connection was closed has ended without an error")
	}
	s.killParent()
	s.restart()
	poll(t, limit, "crawls to go on", func() bool { return len(of("started")) >= 2 })
	stop()
	if err := <-stopped; err != nil {
		t.Errorf("a worker that was stopped: %v", err)
	}
	poll(t, limit, "all crawls to be done", func() bool { return len(of("done")) == crawls })
	for _, it := range of("done") {
		it = get[pageItem](s, fmt.Sprintf("/queues/pages/items/%d", it.ID), "")
		if it.Result.Articles != it.Payload.Articles {
			t.Errorf("item %d: %d articles, want %d", it.ID, it.Result.Articles, it.Payload.Articles)
		}
		if slices.ContainsFunc(it.History, func(h struct{ Move string }) bool { return h.Move == "fail" }) {
			t.Errorf("item %d was recorded as failed: %+v", it.ID, it.History)
		}
	}
	cancel()
	if err := <-lasting; err != nil {
		t.Error(err)
	}
}

// pageItem is an item of the queue pages.
type pageItem struct {
	ID      int64
	Payload crawlOf
	Result  struct {
		Articles int `json:"articles_count"`
	}
	History []struct{ Move string }
}

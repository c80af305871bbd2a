package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/stream"
)

// silence is the time after which a silent daemon's shards go to others. Queues have a lease.
const silence = "MILLRACE_WORK_ACK_WAIT=2s"

// testProtectedPulls is testPulls where nobody gets in without a login, and a worker is
// at it.
func testProtectedPulls(t *testing.T, _ *server) {
	s := up(t, "AUTH_JWT_SECRET="+attackSecret, silence, "MILLRACE_NATS_USER=millrace",
		"MILLRACE_NATS_PASSWORD="+attackSecret)
	key, err := nats.NkeyOptionFromSeed(filepath.Join(s.data, "nats", "keys", "worker.nk"))
	if err != nil {
		t.Fatal(err)
	}
	testPulls(t, s, key)
}

// testPulls: workers get all items of a queue while others send it requests without end, on
// one connection and on many, and answer nothing.
func testPulls(t *testing.T, s *server, login ...nats.Option) {
	c := &crowd{T: t, s: s, login: login}
	const queue = "crowded"
	if status, body := s.with(t, token(t, "admin"), http.MethodPost, "/queues",
		`{"name":"`+queue+`","max_attempts":0,"lease_s":2}`); status != http.StatusCreated {
		t.Fatalf("status %d: %s", status, body)
	}
	daemon := c.connect()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 10 {
		go c.hoard(ctx, queue, 50)
	}
	go c.hoard(ctx, queue, 5000)
	for name, take := range map[string]func(string, int){
		"plain":    func(q string, n int) { c.plain(daemon, q, n) },
		"newcomer": func(q string, n int) { c.plain(c.connect(), q, n) },
		"client":   c.client,
		"http":     c.http,
	} {
		begin := time.Now()
		c.add(queue, 20)
		take(queue, 20)
		t.Logf("%s: 20 items in %s", name, time.Since(begin).Round(time.Millisecond))
	}
}

// crowd is a server that is attacked, with its daemons.
type crowd struct {
	*testing.T
	s     *server
	login []nats.Option
}

func (c *crowd) connect() *nats.Conn {
	c.Helper()
	nc, err := nats.Connect(c.s.natsURL(), c.login...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(nc.Close)
	return nc
}

// hoard sends pulls of all kinds over one connection until ctx ends, reads what comes,
// and answers nothing.
func (c *crowd) hoard(ctx context.Context, queue string, pulls int) {
	nc, err := nats.Connect(c.s.natsURL(), c.login...)
	if err != nil {
		c.Error(err)
		return
	}
	defer nc.Close()
	inbox := nats.NewInbox()
	if _, err := nc.Subscribe(inbox, func(*nats.Msg) {}); err != nil {
		c.Error(err)
		return
	}
	bodies := []string{
		`{"batch":1000,"expires":3600000000000}`, `{"batch":1000,"expires":60000000000}`, `{"batch":1000}`, ``, `1000`,
		`{"batch":`,
		`{"batch":1000000,"expires":315360000000000000}`, `{"batch":1000,"no_wait":true}`,
		`{"batch":1000,"expires":60000000000,"idle_heartbeat":1000000}`,
		`{"batch":1000,"expires":60000000000,"min_pending":1}`,
		`{"batch":1000,"expires":60000000000,"group":"x","priority":-1}`, `{"batch":1000000,"max_bytes":60000000}`,
	}
	for ctx.Err() == nil {
		for i := range pulls {
			body := bodies[i%len(bodies)]
			_ = nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.WORK."+queue, inbox, []byte(body))
			_ = nc.PublishRequest(fmt.Sprintf("$JS.ACK.WORK.%s.1.%d.1.1.0", queue, 1_000_000_000+i), inbox,
				[]byte("+NXT "+body))
		}
		_ = nc.Flush()
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// add adds items.
func (c *crowd) add(queue string, n int) {
	c.Helper()
	items := make([]map[string]any, n)
	for i := range items {
		items[i] = map[string]any{"payload": i}
	}
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		c.Fatal(err)
	}
	status, answer := c.s.patient(c.T, "items to be added", func() (int, []byte) {
		return c.s.with(c.T, token(c.T, "work"), http.MethodPost, "/queues/"+queue+"/items", string(body))
	})
	if status != http.StatusOK && status != http.StatusCreated {
		c.Fatalf("status %d: %s", status, answer)
	}
}

// plain takes n items over NATS, with a stock client.
func (c *crowd) plain(nc *nats.Conn, queue string, n int) {
	c.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		c.Fatal(err)
	}
	consumer, err := js.Consumer(c.Context(), stream.Work, queue)
	if err != nil {
		c.Fatal(err)
	}
	got := 0
	poll(c.T, waitLimit, "a plain daemon to get its items", func() bool {
		batch, err := consumer.Fetch(n-got, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			c.Fatal(err)
		}
		for m := range batch.Messages() {
			got++
			if err := m.Ack(); err != nil {
				c.Error(err)
			}
		}
		return got >= n
	})
}

// client takes n items with the Go client.
func (c *crowd) client(queue string, n int) {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	var got atomic.Int64
	done := make(chan error, 1)
	nc := c.connect()
	go func() {
		done <- client.Work(ctx, nc, queue, func(context.Context, client.Item) error {
			got.Add(1)
			return nil
		}, client.WorkConfig{})
	}()
	poll(c.T, waitLimit, "the Go client to get its items", func() bool { return int(got.Load()) >= n })
	cancel()
	if err := <-done; err != nil {
		c.Error(err)
	}
}

// http takes n items over HTTP.
func (c *crowd) http(queue string, n int) {
	c.Helper()
	got := 0
	poll(c.T, waitLimit, "HTTP to get its items", func() bool {
		status, body := c.s.with(c.T, token(c.T, "work"), http.MethodPost, "/queues/"+queue+"/take",
			`{"worker":"w","limit":20,"lease_s":60}`)
		var taken struct {
			Items []struct {
				ID         int64 `json:"id"`
				Generation int   `json:"generation"`
			} `json:"items"`
		}
		if status == http.StatusServiceUnavailable {
			return false
		}
		if err := json.Unmarshal(body, &taken); err != nil || status != http.StatusOK {
			c.Fatalf("status %d: %s", status, body)
		}
		for _, it := range taken.Items {
			got++
			target := fmt.Sprintf("/queues/%s/items/%d/done", queue, it.ID)
			report := fmt.Sprintf(`{"generation":%d}`, it.Generation)
			if status, body := c.s.patient(c.T, "a report", func() (int, []byte) {
				return c.s.with(c.T, token(c.T, "work"), http.MethodPost, target, report)
			}); status != http.StatusOK {
				c.Errorf("status %d: %s", status, body)
			}
		}
		return got >= n
	})
}

package pulls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/slowtest"

	embedded "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/schemas/stream"
)

// site is a server with roles, a queue "q", and a service.
type site struct {
	t       *testing.T
	worker  func() *nats.Conn // returns a connection of a worker
	nc      *nats.Conn        // of Millrace
	js      jetstream.JetStream
	servers []*server.Server // of a cluster
	others  []*server.Server // that did not lead the consumer at first: of the service, and of the worker
	subs    func() int       // returns how many subscriptions the service has
}

const ackWait = 2 * time.Second

func start(t *testing.T) *site {
	t.Helper()
	return startWith(t, ackWait)
}

// startWith is start with a lease.
func startWith(t *testing.T, lease time.Duration) *site {
	t.Helper()
	srv, err := embedded.New(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	run(t, srv.Run)
	<-srv.Ready()
	s := &site{t: t}
	s.worker = func() *nats.Conn {
		nc, err := nats.Connect(srv.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	nc, err := nats.Connect("", srv.InProcess())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.EnsureWork(t.Context(), js, []string{"q"}, stream.WorkConfig{AckWait: lease})
	if err != nil {
		t.Fatal(err)
	}
	s.serve(nc, lease)
	return s
}

// serve runs a service on a connection of Millrace.
func (s *site) serve(nc *nats.Conn, lease time.Duration) {
	t := s.t
	t.Helper()
	var err error
	s.nc = nc
	if s.subs == nil {
		s.subs = nc.NumSubscriptions
	}
	if s.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	service, err := New(nc, func(string) time.Duration { return lease }, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	const own = 6 // subscriptions of a service that has no requests
	before := s.subs()
	run(t, service.Run)
	s.awaitSubscriptions(before + own)
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// run runs a component until the test ends.
func run(t *testing.T, component func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- component(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// connect returns a connection without a login.
func (s *site) connect() *nats.Conn {
	s.t.Helper()
	return s.worker()
}

func (s *site) consumer(nc *nats.Conn) jetstream.Consumer {
	s.t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := js.Consumer(s.t.Context(), stream.Work, "q")
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *site) add(n int) {
	s.t.Helper()
	for i := range n {
		if _, err := s.js.Publish(s.t.Context(), "work.q", []byte(fmt.Sprint(i))); err != nil {
			s.t.Fatal(err)
		}
	}
}

// doubleAck acknowledges an item and waits until the server says so.
func (s *site) doubleAck(m jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	return m.DoubleAck(ctx)
}

// take acknowledges items until there were n.
func (s *site) take(c jetstream.Consumer, n int) (took time.Duration) {
	s.t.Helper()
	begin := time.Now()
	for got := 0; got < n; {
		batch, err := c.Fetch(n-got, jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			s.t.Fatal(err)
		}
		for m := range batch.Messages() {
			if err := s.doubleAck(m); err != nil {
				s.t.Error(err)
			}
			got++
		}
		if err := batch.Error(); err != nil {
			s.t.Log(err)
		}
		if time.Since(begin) > time.Minute {
			s.t.Fatalf("got %d of %d items", got, n)
		}
	}
	return time.Since(begin)
}

// TestTake: a stock client gets items, and is told when there are none.
func TestTake(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.consumer(s.connect())
	s.add(500)
	s.take(c, 500)
	for _, fetch := range []func() (jetstream.MessageBatch, error){
		func() (jetstream.MessageBatch, error) { return c.FetchNoWait(5) },
		func() (jetstream.MessageBatch, error) { return c.Fetch(5, jetstream.FetchMaxWait(time.Second)) },
	} {
		batch, err := fetch()
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			t.Errorf("an item: %s", m.Data())
		}
		if err := batch.Error(); err != nil {
			t.Error(err)
		}
	}
	messages, err := c.Messages() // by defaults
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	s.add(300)
	for range 300 {
		m, err := messages.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

// attacks are what a connection may try to keep items and room from others.
var attacks = map[string]string{
	"batches of 1,000":     `{"batch":1000,"expires":60000000000}`,
	"without an end":       `{"batch":1000}`,
	"empty":                ``,
	"a number":             `1000`,
	"for ten years":        `{"batch":1000000,"expires":315360000000000000}`,
	"many bytes":           `{"batch":1000000,"max_bytes":60000000,"expires":60000000000}`,
	"no_wait":              `{"batch":1000,"no_wait":true}`,
	"no_wait and an end":   `{"batch":1000,"no_wait":true,"expires":60000000000}`,
	"heartbeats":           `{"batch":1000,"expires":60000000000,"idle_heartbeat":1000000}`,
	"priority":             `{"batch":1000,"expires":60000000000,"group":"x","priority":-1}`,
	"min_pending":          `{"batch":1000,"expires":60000000000,"min_pending":1,"min_ack_pending":1}`,
	"pinned":               `{"batch":1000,"expires":60000000000,"id":"x"}`,
	"no JSON":              `{"batch":`,
	"ends of milliseconds": `{"batch":1000,"expires":1000000}`,
}

// TestAttacks: a worker that is known, a new one and Millrace itself get their items
// while others hoard requests and items, in any way that a role has.
func TestAttacks(t *testing.T) {
	for _, way := range []struct {
		name, subject string
		connections   int
		before        string
	}{
		{"pulls", nextSubject, 1, ""},
		{"pulls of many", nextSubject, 5, ""},
		{"answers", "$JS.ACK.WORK.q.1.1000000000.1.1.0", 1, "+NXT "},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			honest := s.consumer(s.connect())
			s.add(1)
			s.take(honest, 1)
			for name, body := range attacks {
				for range way.connections {
					nc := s.connect()
					inbox := nats.NewInbox()
					if _, err := nc.Subscribe(inbox, func(*nats.Msg) {}); err != nil {
						t.Fatal(err)
					}
					for range 500 / way.connections {
						if err := nc.PublishRequest(way.subject, inbox, []byte(way.before+body)); err != nil {
							t.Fatal(name, err)
						}
					}
					if err := nc.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for name, c := range map[string]jetstream.Consumer{
				"known": honest, "new": s.consumer(s.connect()), "own": s.consumer(s.nc),
			} {
				s.add(20)
				t.Log(name, s.take(c, 20))
			}
			info, err := s.js.Consumer(t.Context(), stream.Work, "q")
			if err != nil {
				t.Fatal(err)
			}
			if n := info.CachedInfo().NumWaiting; n > mostPlaces {
				t.Errorf("%d requests wait at the consumer, want at most %d", n, mostPlaces)
			}
		})
	}
}

const nextSubject = "$JS.API.CONSUMER.MSG.NEXT.WORK.q"

// TestWindow: a silent connection is handed no more than its window, one item at a time
// once others have been served, and what it holds comes back to others.
func TestWindow(t *testing.T) {
	t.Parallel()
	s := start(t)
	silent := s.connect()
	var got atomic.Int64
	inbox := nats.NewInbox()
	if _, err := silent.Subscribe(inbox, func(m *nats.Msg) {
		if len(m.Data) > 0 {
			got.Add(1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	s.add(100)
	for range 20 {
		if err := silent.PublishRequest(nextSubject, inbox, []byte(`{"batch":1000}`)); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); got.Load() < firstWindow; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the silent connection was handed %d items", got.Load())
		}
	}
	s.take(s.consumer(s.connect()), 100)
	if n := got.Load(); n > firstWindow+2 { // and one for each ack_wait
		t.Errorf("the silent connection was handed %d items, want about %d", n, firstWindow)
	}
}

// next returns the next message, which has to come within a minute.
func (s *site) next(messages jetstream.MessagesContext) jetstream.Msg {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	m, err := messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// messages begins to take items, up to most at a time.
func (s *site) messages(most int) jetstream.MessagesContext {
	s.t.Helper()
	messages, err := s.consumer(s.connect()).Messages(jetstream.PullMaxMessages(most))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(messages.Stop)
	return messages
}

func deliveries(t *testing.T, m jetstream.Msg) uint64 {
	t.Helper()
	meta, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return meta.NumDelivered
}

// TestGone: no item is handed to a connection that has ended while its requests waited
// (promise 6).
func TestGone(t *testing.T) {
	t.Parallel()
	startWith(t, time.Hour).gone(func() {})
}

// gone has connections end while their requests wait, after something else, and sees who
// gets items.
func (s *site) gone(first func()) {
	t := s.t
	const connections, each, items = 10, 3, 20
	before := s.subs()
	var gone []*nats.Conn
	var told []*nats.Subscription
	for range connections {
		nc := s.connect()
		gone = append(gone, nc)
		sub, err := nc.SubscribeSync(nats.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, sub)
		for range each {
			if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.WORK.q", sub.Subject,
				[]byte(`{"batch":10,"expires":90000000000}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.awaitSubscriptions(before + 2*connections*each)
	first()
	for i, nc := range gone {
		if m, err := told[i].NextMsg(time.Nanosecond); err == nil {
			t.Logf("%v %q", m.Header, m.Data)
		}
		nc.Close()
	}
	s.awaitSubscriptions(before)
	s.add(items)
	batch, err := s.consumer(s.connect()).Fetch(items, jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for m := range batch.Messages() {
		got++
		if n := deliveries(t, m); n != 1 {
			t.Errorf("an item was delivered %d times", n)
		}
		if err := m.Ack(); err != nil {
			t.Error(err)
		}
	}
	if err := batch.Error(); err != nil || got != items {
		t.Errorf("got %d of %d items, error %v", got, items, err)
	}
}

// awaitSubscriptions waits until the service has so many subscriptions. A request that waits
// has two.
func (s *site) awaitSubscriptions(want int) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); s.subs() != want; {
		if time.Now().After(end) {
			s.t.Fatalf("%d subscriptions, want %d", s.subs(), want)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestKept: a client that asks for many items and works on them one after the other
// keeps all of them, though the last has its turn long after the lease.
func TestKept(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := start(t)
	s.add(16)
	messages := s.messages(20)
	for n := range 17 {
		if n == 16 {
			s.add(1) // it would come behind one that has come again
		}
		m := s.next(messages)
		if deliveries(t, m) > 1 {
			t.Fatalf("item %s has come again", m.Data())
		}
		<-time.After(ackWait / 5) // the work
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHung: an item whose handler says nothing goes to another client, though its
// connection goes on with items that it was handed after it.
func TestHung(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.add(2)
	messages := s.messages(2)
	hung, busy := s.next(messages), s.next(messages)
	messages.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := busy.InProgress(); err != nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(ackWait / 10):
			}
		}
	}()
	m := s.next(s.messages(1))
	cancel()
	<-done
	if string(m.Data()) != string(hung.Data()) {
		t.Errorf("item %s has come, not %s, of which nothing was said", m.Data(), hung.Data())
	}
}

// TestBack: a connection that was silent again and again, as in an outage, is handed
// items as soon as they are free.
func TestBack(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := startWith(t, 500*time.Millisecond)
	s.add(1)
	messages := s.messages(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range 11 {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatalf("after %d times of silence: %v", n, err)
		}
		if n == 10 {
			if err := m.DoubleAck(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBounds: requests beyond the bounds get JetStream's answer, and so do those for a
// consumer that is not there.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc := s.connect()
	for body, want := range map[string]string{
		`{"batch":1001,"expires":1000000000}`:             "409 Exceeded MaxRequestBatch of 1000",
		`{"batch":1,"expires":91000000000}`:               "409 Exceeded MaxRequestExpires of 1m30s",
		`{"batch":1,"expires":1000,"max_bytes":67108865}`: "409 Exceeded MaxRequestMaxBytes of 67108864",
		`{"batch":2,"no_wait":true}`:                      "404 No Messages",
		`{"batch":2,"expires":1000000}`:                   "408 Request Timeout",
	} {
		m, err := nc.Request(nextSubject, []byte(body), time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := m.Header.Get("Status") + " " + m.Header.Get("Description"); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	_, err := nc.Request("$JS.API.CONSUMER.MSG.NEXT.WORK.none", nil, time.Minute)
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a queue that is not there: %v", err)
	}
}

// TestAtOnce: items reach a client whose requests do not wait, also when its connection may have more items just as a
// request is told that there are none (promise 5). An item that is lost comes again after its lease, which is too late here.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := startWith(t, time.Hour)
	const n = 2000
	s.add(n)
	c := s.consumer(s.connect())
	got := map[string]bool{}
	for end := time.Now().Add(time.Minute); len(got) < n && time.Now().Before(end); {
		batch, err := c.FetchNoWait(1000)
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			got[string(m.Data())] = true
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(got) != n {
		t.Errorf("%d items came before their lease was over, want %d", len(got), n)
	}
}

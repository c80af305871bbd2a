package publish

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

func publisher(t testing.TB, nc *nats.Conn, cfg Config) *Publisher {
	t.Helper()
	p, err := New(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func messages(from, to int) []Message {
	var msgs []Message
	for i := from; i < to; i++ {
		msgs = append(msgs, Message{
			Subject: fmt.Sprintf("events.crawled.%02x", i%256),
			Data:    fmt.Appendf(nil, "id-%d %s", i, strings.Repeat("x", 300)), Event: identify(i, 1),
		})
	}
	return msgs
}

// identify is what identifies the i-th event, from a sender.
func identify(i int, sender event.Fingerprint) stream.KnownItem {
	return stream.KnownItem{
		Slot:     byte(i),
		Identity: event.Identity(binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i))), Fingerprint: sender,
	}
}

func id(m Message) string {
	id, _, _ := strings.Cut(string(m.Data), " ")
	return id
}

func count(outcomes []Outcome) (accepted, duplicate, failed int) {
	for _, o := range outcomes {
		switch o.Status {
		case Accepted:
			accepted++
		case Duplicate:
			duplicate++
		default:
			failed++
		}
	}
	return accepted, duplicate, failed
}

func publish(t testing.TB, p *Publisher, msgs []Message, accepted, duplicate int) []Outcome {
	t.Helper()
	outcomes, err := p.PublishRaw(t.Context(), msgs)
	if err != nil {
		t.Fatal(err)
	}
	if a, d, f := count(outcomes); a != accepted || d != duplicate || f != 0 {
		t.Errorf("accepted %d, duplicate %d, failed %d; want %d and %d", a, d, f, accepted, duplicate)
	}
	return outcomes
}

func eachOnce(t testing.TB, s *natstest.Server, want int) {
	t.Helper()
	ids := s.IDs()
	for id, n := range ids {
		if n != 1 {
			t.Errorf("%s is stored %d times", id, n)
		}
	}
	if len(ids) != want {
		t.Errorf("the stream has %d ids, want %d", len(ids), want)
	}
}

func TestOutcomes(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{})
	publish(t, p, nil, 0, 0)
	publish(t, p, messages(0, 1), 1, 0)
	publish(t, p, messages(0, 1), 0, 1)
	publish(t, p, messages(0, 3), 2, 1)
	publish(t, p, messages(0, 2500), 2497, 3)
	publish(t, p, messages(0, 2500), 0, 2500)
	publish(t, p, messages(2000, 4500), 2000, 500)
	twice := append(messages(5000, 5003), messages(5000, 5003)...)
	outcomes := publish(t, p, twice, 3, 3)
	if outcomes[0].Status != Accepted || outcomes[5].Status != Duplicate {
		t.Errorf("of an event that stands twice the first is accepted: %v", outcomes)
	}
	eachOnce(t, s, 4503)
	if p.asker.away.Len() > 0 {
		t.Error("slots count as away, though there are no projectors to wait for")
	}
}

func TestBatchesAreBoundedInBytes(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{MaxBatchBytes: 2000, InFlight: 50})
	if n := p.cut(messages(0, 10), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}); n != 3 {
		t.Errorf("%d messages of 570 bytes make a batch of 2,000", n)
	}
	publish(t, p, messages(0, 500), 500, 0)
	eachOnce(t, s, 500)
}

// A random history with duplicates, by several callers of a publisher at once:
// each event is stored once (invariant 3), and the outcomes add up to that
// (invariant 1).
func TestRandomHistories(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := natstest.Start(t, stream.Config{})
	const ids = 4000
	var mu sync.Mutex
	acceptances := map[string]int{}
	sent := map[string]bool{}
	var wg sync.WaitGroup
	p := publisher(t, s.Connect(), Config{MaxBatch: 100, InFlight: 3})
	for w := range uint64(3) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, w))
			for range 12 {
				msgs := pick(rnd, ids)
				outcomes, err := p.PublishRaw(t.Context(), msgs)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for i, o := range outcomes {
					sent[id(msgs[i])] = true
					if o.Status == Accepted {
						acceptances[id(msgs[i])]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range acceptances {
		if n != 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
	if len(acceptances) != len(sent) {
		t.Errorf("%d ids were sent, %d accepted", len(sent), len(acceptances))
	}
	eachOnce(t, s, len(sent))
}

// pick makes a call: a run of new and old ids, shuffled, some of them twice.
func pick(rnd *rand.Rand, ids int) []Message {
	n := 1 + rnd.IntN(400)
	if rnd.IntN(4) == 0 {
		n = 1
	}
	start := rnd.IntN(ids - n)
	msgs := messages(start, start+n)
	if n > 10 && rnd.IntN(2) == 0 {
		msgs = append(msgs, msgs[:rnd.IntN(10)]...)
	}
	rnd.Shuffle(len(msgs), func(i, j int) { msgs[i], msgs[j] = msgs[j], msgs[i] })
	return msgs
}

// The server goes away again and again: nothing is lost, and what this publisher
// stored counts as accepted even where an answer was lost. Such a message may be
// stored twice; its event counts once.
func TestRestarts(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{MaxBatch: 50, Attempt: 300 * time.Millisecond})
	progress := make(chan struct{}, 100)
	total, accepted := 20_000, 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := 0; at < total; at += 500 {
			outcomes, err := p.PublishRaw(t.Context(), messages(at, at+500))
			if err != nil {
				t.Error(err)
			}
			a, _, _ := count(outcomes)
			accepted += a
			progress <- struct{}{}
		}
	}()
	for range 3 {
		for range 8 {
			<-progress
		}
		s.Stop()
		s.Start()
	}
	<-done
	if accepted != total {
		t.Errorf("%d of %d were accepted", accepted, total)
	}
	if ids := s.IDs(); len(ids) != total {
		t.Errorf("the stream has %d events of %d", len(ids), total)
	}
}

func TestUnknownFateIsSaid(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{Attempt: 50 * time.Millisecond})
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, n := range []int{1, 3} {
		outcomes, err := p.PublishRaw(ctx, messages(0, n))
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d messages: %v", n, err)
		}
		if _, _, failed := count(outcomes); failed != n {
			t.Errorf("outcomes are %v", outcomes)
		}
	}
}

func TestPermanentFailures(t *testing.T) {
	s := natstest.Start(t, stream.Config{MaxBytes: 300_000})
	nc := s.Connect()
	p := publisher(t, nc, Config{})
	large := messages(0, 3)
	large[1].Data = make([]byte, 9<<20)
	outcomes, err := p.PublishRaw(t.Context(), large)
	if !errors.Is(err, ErrTooLarge) || outcomes[0].Status != Accepted || outcomes[2].Status != Accepted ||
		!errors.Is(outcomes[1].Err, ErrTooLarge) {
		t.Errorf("a large message among small ones: %v, %v", outcomes, err)
	}
	publish(t, p, messages(10, 410), 400, 0)
	for _, n := range []int{1000, 2, 1} {
		msgs := messages(1000, 1000+n)
		for i := range msgs {
			msgs[i].Data = make([]byte, 300_000/n)
		}
		if _, err := p.PublishRaw(t.Context(), msgs); !errors.Is(err, ErrStreamFull) {
			t.Errorf("%d messages into a full stream: %v", n, err)
		}
	}
	nc.Close()
	for _, n := range []int{1, 2} {
		if _, err := p.PublishRaw(t.Context(), messages(3000, 3000+n)); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("on a closed connection: %v", err)
		}
	}
}

// A message that no stream takes leaves a hole in its batch. The others are
// stored all the same.
func TestOneBadMessageDoesNotKeepOthersBack(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{Attempt: 3 * time.Second})
	msgs := messages(0, 5)
	msgs[2].Subject = "elsewhere"
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	outcomes, err := p.PublishRaw(ctx, msgs)
	if a, _, f := count(outcomes); a != 4 || f != 1 || outcomes[2].Status != Failed || err == nil {
		t.Errorf("%v, %v", outcomes, err)
	}
	eachOnce(t, s, 4)
}

func TestEmit(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	p := publisher(t, s.Connect(), Config{Service: "crawler"})
	e := event.Event{ArticleURL: "https://example.com/a", SourceName: "s", Stage: "crawled"}
	if err := p.Emit(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	same := e
	same.OccurredAt, same.ServiceName = at, "other"
	bad, dotted := e, e
	bad.ArticleURL, dotted.Stage = "nothing", "a.b"
	outcomes, err := p.EmitBatch(t.Context(), []event.Event{bad, same, same, dotted, e})
	var invalid *event.Invalid
	if !errors.As(err, &invalid) || invalid.Field != "article_url" || !errors.As(outcomes[3].Err, &invalid) ||
		invalid.Field != "stage" {
		t.Errorf("%v %v", outcomes, err)
	}
	want := []Status{Failed, Accepted, Duplicate, Failed, Accepted}
	for i, o := range outcomes {
		if o.Status != want[i] {
			t.Errorf("event %d: %v %v, want %v", i, o.Status, o.Err, want[i])
		}
	}
	msg, err := s.JetStream().Stream(t.Context(), stream.Events)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := msg.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var r event.Record
	if err := event.Decode(raw.Data, &r); err != nil {
		t.Fatal(err)
	}
	if string(r.ServiceName) != "crawler" || raw.Header.Get(nats.MsgIdHdr) != "" ||
		raw.Subject != stream.EventSubject("crawled", r.URLHash) {
		t.Errorf("%s %v %s", raw.Subject, raw.Header, raw.Data)
	}
}

func TestBatcher(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	b := NewBatcher(publisher(t, s.Connect(), Config{}), 5*time.Second)
	var wg sync.WaitGroup
	var accepted, duplicate sync.Map
	for i, m := range append(messages(0, 300), messages(0, 300)...) {
		wg.Go(func() {
			switch o := b.Publish(t.Context(), m); o.Status {
			case Accepted:
				if _, twice := accepted.LoadOrStore(id(m), i); twice {
					t.Errorf("%s was accepted twice", id(m))
				}
			case Duplicate:
				duplicate.Store(id(m), i)
			default:
				t.Error(o.Err)
			}
		})
	}
	wg.Wait()
	for _, m := range messages(0, 300) {
		_, a := accepted.Load(id(m))
		_, d := duplicate.Load(id(m))
		if !a || !d {
			t.Errorf("%s: accepted %v, duplicate %v", id(m), a, d)
		}
	}
	eachOnce(t, s, 300)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := b.Publish(ctx, messages(900, 901)[0]); o.Status == Failed && !errors.Is(o.Err, ErrUnknown) {
		t.Error(o.Err)
	}
	large := Message{Subject: "events.crawled.00", Data: make([]byte, maxQueue)}
	if o := b.Publish(t.Context(), large); !errors.Is(o.Err, ErrBusy) {
		t.Error(o.Err)
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{
		{MaxBatch: 1001},
		{MaxBatch: -1},
		{InFlight: 51},
		{InFlight: -1},
		{Attempt: -1},
		{MaxBatchBytes: -1},
	} {
		if _, err := New(&nats.Conn{}, cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no connection is taken")
	}
}

func BenchmarkPublish(b *testing.B) {
	const n = 20_000
	for _, c := range []struct {
		name  string
		stale int // one message in so many is a duplicate; 0: none
	}{{"new", 0}, {"1 in 1000 duplicate", 1000}, {"1 in 20 duplicate", 20}, {"all duplicate", 1}} {
		b.Run(c.name, func(b *testing.B) {
			s := natstest.Start(b, stream.Config{})
			p := publisher(b, s.Connect(), Config{})
			at := n
			publish(b, p, messages(0, n), n, 0)
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				msgs := messages(at, at+n)
				at += n
				for i := range msgs {
					if c.stale > 0 && i%c.stale == 0 {
						msgs[i].Event = identify(i, 1)
					}
				}
				b.StartTimer()
				if _, err := p.PublishRaw(b.Context(), msgs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

func BenchmarkBatcher(b *testing.B) {
	for _, callers := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			s := natstest.Start(b, stream.Config{})
			batcher := NewBatcher(publisher(b, s.Connect(), Config{}), 5*time.Second)
			msgs := messages(0, b.N)
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range callers {
				wg.Go(func() {
					for i := w; i < b.N; i += callers {
						if o := batcher.Publish(b.Context(), msgs[i]); o.Status != Accepted {
							b.Error(o.Err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

package outbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// site is an outbox on servers of its own.
type site struct {
	*testing.T
	*Outbox
	nats *natstest.Server
	js   jetstream.JetStream
	pool *pgxpool.Pool
	ids  []string // of the messages that were added, in order
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	s := &site{T: t, Outbox: New(stream.Sources), nats: natstest.Start(t, stream.Config{}), pool: engine.Pool(t)}
	s.js = s.nats.JetStream()
	return s
}

// add commits n messages, of keys in turn.
func (s *site) add(n, keys int) {
	s.Helper()
	var messages []Message
	for range n {
		id := strconv.Itoa(len(s.ids))
		s.ids = append(s.ids, id)
		messages = append(messages, Message{Key: strconv.Itoa(len(s.ids) % keys), Subject: "sources.TEST", ID: id})
	}
	for i := range messages {
		messages[i].Body = []byte(messages[i].Key)
	}
	err := pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) error { return s.Add(s.Context(), tx, messages) })
	if err != nil {
		s.Fatal(err)
	}
	s.Wake()
}

// publisher makes one, as a process that starts does.
func (s *site) publisher() *Publisher {
	s.Helper()
	p, err := NewPublisher(Config{Key: 1, Poll: 5 * time.Millisecond}, s.Outbox, Deps{
		NATS: s.nats.Connect(), Postgres: s.pool, Registry: prometheus.NewRegistry(), Log: embeddedtest.Log(s.T),
	})
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// run runs a publisher until it is stopped.
func (s *site) run() (stop func()) {
	s.Helper()
	return embeddedtest.Go(s, s.publisher().Run)
}

func (s *site) waiting() (n int) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), "SELECT count(*) FROM millrace.message_outbox").Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// await polls until a condition holds.
func (s *site) await(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// once holds that the stream has each message once, and those of a key in order.
func (s *site) once() {
	s.Helper()
	s.await("the outbox to be empty", func() bool { return s.waiting() == 0 })
	st, err := s.js.Stream(s.Context(), stream.Sources)
	if err != nil {
		s.Fatal(err)
	}
	var ids []string
	latest := map[string]int{}
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(s.Context(), seq)
		if err != nil {
			s.Fatal(err)
		}
		if m.Subject != "sources.TEST" {
			continue // somebody else's
		}
		id := m.Header.Get(jetstream.MsgIDHeader)
		n, err := strconv.Atoi(id)
		if err != nil {
			s.Fatal(err)
		}
		key := string(m.Data)
		if before, ok := latest[key]; ok && n <= before {
			s.Errorf("of key %s, %d comes after %d", key, n, before)
		}
		latest[key] = n
		ids = append(ids, id)
	}
	slices.Sort(ids)
	want := slices.Sorted(slices.Values(s.ids))
	if !slices.Equal(ids, want) {
		s.Errorf("the stream has %d messages %v\nwant %d", len(ids), ids, len(want))
	}
}

// TestPublishes: what was committed before there was a publisher and what is
// committed beside one is on the stream once (1, 2, 3).
func TestPublishes(t *testing.T) {
	s := newSite(t)
	s.add(700, 300)
	stop := s.run()
	for range 5 {
		s.add(20, 7)
	}
	s.once()
	stop()
	s.add(10, 1)
	s.run()
	s.once()
}

// TestSettles: a publisher that was killed at any point of a block has its messages
// on the stream once, also when the stream has forgotten their ids meanwhile, and
// with messages of others among them (2).
func TestSettles(t *testing.T) {
	s := newSite(t)
	s.forget()
	for _, stored := range []int{0, 1, 5, 9, 10} {
		s.add(10, 10)
		p := s.publisher()
		block, err := p.next(s.Context())
		if err == nil {
			err = p.mark(s.Context(), block)
		}
		if err != nil || len(block) != 10 {
			t.Fatal(len(block), err)
		}
		for i := range stored { // any of them: they are in flight together
			e := block[(i*3)%10]
			if _, err := s.js.Publish(s.Context(), e.Subject, e.Body, jetstream.WithMsgID(e.ID)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.js.Publish(s.Context(), "sources.OTHER", nil); err != nil {
				t.Fatal(err)
			}
		}
		s.expire(stored)
		stop := s.run()
		s.once()
		stop()
	}
}

// forget has the stream remember ids as shortly as it can.
func (s *site) forget() {
	s.Helper()
	st, err := s.js.Stream(s.Context(), stream.Sources)
	if err != nil {
		s.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	cfg.Duplicates = stream.MinDedupWindow
	if _, err := s.js.UpdateStream(s.Context(), cfg); err != nil {
		s.Fatal(err)
	}
}

// expire returns when the stream has forgotten the ids that it has now.
func (s *site) expire(round int) {
	s.Helper()
	id := fmt.Sprint("probe ", round)
	first := true
	s.await("the stream to forget", func() bool {
		ack, err := s.js.Publish(s.Context(), "sources.OTHER", nil, jetstream.WithMsgID(id))
		if err != nil {
			s.Fatal(err)
		}
		forgotten := !first && !ack.Duplicate
		first = false
		return forgotten
	})
}

// TestSuccession: publishers that end and begin all the time, and servers of NATS
// that stop under them, lose and double nothing.
func TestSuccession(t *testing.T) {
	s := newSite(t)
	for i := range 8 {
		stop := s.run()
		s.add(60, 25)
		if i%3 == 1 {
			s.nats.Stop()
			s.add(5, 5)
			s.nats.Start()
		}
		if i%2 == 0 {
			s.await("some to be published", func() bool { return s.waiting() < 60 })
		}
		stop()
	}
	s.run()
	s.once()
}

// TestStreamAway: nothing leaves the outbox for a stream that is not there.
func TestStreamAway(t *testing.T) {
	s := newSite(t)
	if err := s.js.DeleteStream(s.Context(), stream.Sources); err != nil {
		t.Fatal(err)
	}
	s.add(3, 1)
	if _, err := s.publisher().turn(s.Context()); !errors.Is(err, jetstream.ErrStreamNotFound) || s.waiting() != 3 {
		t.Errorf("%v, %d wait", err, s.waiting())
	}
	if err := stream.Ensure(s.Context(), s.js, stream.Config{}); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.once()
}

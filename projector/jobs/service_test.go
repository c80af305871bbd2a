package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// patience is how long a test waits for what has to happen.
const patience = 2 * time.Minute

// site is a stream and a database of one test.
type site struct {
	*testing.T
	nats  *natstest.Server
	js    jetstream.JetStream
	store *jobs.Store
}

func newSite(t *testing.T, patience time.Duration) *site {
	t.Helper()
	t.Parallel()
	s := &site{T: t, nats: natstest.Start(t, stream.Config{})}
	s.js = s.nats.JetStream()
	var err error
	if s.store, err = jobs.New(jobs.Config{Patience: patience}, engine.Pool(t, queue.Configure)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) service() *Service {
	s.Helper()
	service, err := New(Config{}, Deps{
		NATS: s.nats.Connect(), Store: s.store, Registry: prometheus.NewRegistry(), Log: embeddedtest.Log(s.T),
	})
	if err != nil {
		s.Fatal(err)
	}
	return service
}

// run runs a service until it is stopped.
func (s *site) run() (service *Service, stop func()) {
	s.Helper()
	service = s.service()
	return service, embeddedtest.Go(s, service.Run)
}

// publish publishes texts in their order, and returns when the stream has them.
func (s *site) publish(texts ...string) {
	s.Helper()
	var acks []jetstream.PubAckFuture
	for _, text := range texts {
		ack, err := s.js.PublishAsync(stream.SourceSubject("TEST"), []byte(text))
		if err != nil {
			s.Fatal(err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			s.Fatal(err)
		}
	}
}

func (s *site) event(kind string, id uuid.UUID, payload any) string {
	s.Helper()
	text, err := json.Marshal(source.Event{
		ID: uuid.New(), Type: kind, SourceID: id, Timestamp: time.Now().UTC(),
		Payload: payload,
	})
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

var example = source.Fields{
	Name: "Example News", URL: "https://example.com", RateLimit: 10, MaxDepth: 1, Enabled: true,
	Selectors: json.RawMessage(`{"title":"h1"}`), Priority: "normal",
}

// settled waits until every message of the stream is done with.
func (s *site) settled() {
	s.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		st, err := s.js.Stream(s.Context(), stream.Sources)
		if err == nil {
			var p jobs.Progress
			p, err = s.store.Progress(s.Context(), stream.Sources)
			if err == nil && p.Position >= st.CachedInfo().State.LastSeq && p.Waiting == 0 {
				return
			}
		}
		if time.Now().After(end) {
			s.Fatalf("events are not done with: %v", err)
		}
	}
}

// letters are the codes of the dead letters by their sequences.
func (s *site) letters() map[uint64]string {
	s.Helper()
	dlq, err := s.js.Stream(s.Context(), stream.DLQ)
	if err != nil {
		s.Fatal(err)
	}
	all := map[uint64]string{}
	for seq := uint64(1); seq <= dlq.CachedInfo().State.LastSeq; seq++ {
		m, err := dlq.GetMsg(s.Context(), seq)
		if err != nil {
			s.Fatal(err)
		}
		n, err := strconv.ParseUint(m.Header.Get(stream.HeaderSeq), 10, 64)
		if err != nil || all[n] != "" || m.Header.Get(stream.HeaderReason) == "" {
			s.Errorf("letter %d: %v, %v", seq, m.Header, err)
		}
		all[n] = m.Header.Get(stream.HeaderField) + "=" + m.Header.Get(stream.HeaderCode)
	}
	return all
}

// TestStorm: two processes take a storm of events of others, among which are ones that
// break rules. Every job is right, and what breaks a rule is a dead letter.
func TestStorm(t *testing.T) {
	s := newSite(t, time.Millisecond)
	n := slowtest.N(1000, 400)
	ids := make([]uuid.UUID, n)
	var texts []string
	want := map[uint64]string{}
	broken := func(text, code string) {
		texts = append(texts, text)
		want[uint64(len(texts))] = code
	}
	for i := range ids {
		ids[i] = uuid.New()
		texts = append(texts, s.event(source.Created, ids[i], example))
		switch i % 200 {
		case 50:
			broken("no JSON", "=json")
		case 100:
			broken(s.event("SOURCE_MOVED", ids[i], nil), "event_type=event_type_unknown")
		case 150:
			broken(s.event(source.Created, ids[i], source.Fields{Name: "a"}), "payload.url=url")
		case 199:
			broken(s.event(source.Disabled, uuid.New(), nil), "source_id=source_unknown")
		}
	}
	for _, id := range ids {
		texts = append(texts, s.event(source.Disabled, id, source.Toggle{}))
	}
	for _, id := range ids[:n/2] {
		texts = append(texts, s.event(source.Enabled, id, source.Toggle{}))
	}
	s.publish(texts...)
	first, stop := s.run()
	second, _ := s.run()
	s.settled()
	letters := s.letters()
	if fmt.Sprint(letters) != fmt.Sprint(want) {
		t.Errorf("the letters are %v\nwant %v", letters, want)
	}
	stats, err := s.store.Stats(t.Context())
	if err != nil || stats.TotalJobs != int64(n) || stats.TotalSources != 0 || // they are in no list
		stats.ByStatus[job.Pending] != int64(n/2) ||
		stats.ByStatus[job.Paused] != int64(n/2) {
		t.Errorf("%+v, %v", stats, err)
	}
	stop()
	made := testutil.ToFloat64(first.metrics.created) + testutil.ToFloat64(second.metrics.created)
	if made != float64(n) {
		t.Errorf("%v jobs are counted as made", made)
	}
	failed := testutil.ToFloat64(first.metrics.processed.WithLabelValues("unknown", "error")) +
		testutil.ToFloat64(second.metrics.processed.WithLabelValues("unknown", "error"))
	if failed != float64(2*(n/200)) {
		t.Errorf("%v events of no type are counted as errors", failed)
	}
}

// TestFuture: an event from the future is a dead letter with its field and rule, and
// changes nothing. A clock may be some minutes ahead.
func TestFuture(t *testing.T) {
	s := newSite(t, time.Millisecond)
	id := uuid.New()
	at := func(when, kind string, payload any) string {
		t.Helper()
		var e map[string]any
		if err := json.Unmarshal([]byte(s.event(kind, id, payload)), &e); err != nil {
			t.Fatal(err)
		}
		e["timestamp"] = when
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ahead := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339Nano) }
	s.publish(at(ahead(4*time.Minute), source.Created, example),
		at("9999-12-31T23:59:59Z", source.Deleted, nil),
		at("9999-12-31T23:59:59-23:59", source.Disabled, nil),
		at(ahead(6*time.Minute), source.Disabled, nil))
	s.run()
	s.settled()
	want := map[uint64]string{2: "timestamp=time_future", 3: "timestamp=time", 4: "timestamp=time_future"}
	if letters := s.letters(); fmt.Sprint(letters) != fmt.Sprint(want) {
		t.Errorf("the letters are %v, want %v", letters, want)
	}
	if d, err := s.store.OfSource(t.Context(), id); err != nil || d.Status != job.Pending {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestUpgrade: events that an earlier release has acknowledged are passed, and those
// that it has applied and not acknowledged change nothing again. Its dead letters come
// no second time.
func TestUpgrade(t *testing.T) {
	s := newSite(t, time.Millisecond)
	id := uuid.New()
	s.publish("no JSON", s.event(source.Created, id, example), s.event(source.Disabled, id, nil),
		s.event(source.Enabled, id, nil))
	c, err := s.js.CreateConsumer(t.Context(), stream.Sources, jetstream.ConsumerConfig{
		Durable: "jobs", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(4, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	var events []jobs.Event
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		told, rule := source.ReadEvent(m.Data())
		if rule != nil {
			if err := m.TermWithReason(rule.Rule); err != nil {
				t.Fatal(err)
			}
			continue
		}
		events = append(events, jobs.Event{Told: told, Seq: int64(meta.Sequence.Stream), Stored: meta.Timestamp})
	}
	if _, n, err := s.store.Handle(t.Context(), events, nil); err != nil || n.Created != 1 {
		t.Fatal(len(events), n, err)
	}
	was, err := s.store.OfSource(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); c.CachedInfo().AckFloor.Stream == 0; _, err = c.Info(t.Context()) {
		if err != nil || time.Now().After(end) {
			t.Fatal("the letter is not acknowledged", err)
		}
	}
	service, _ := s.run()
	s.settled()
	now, err := s.store.OfSource(t.Context(), id)
	if err != nil || now.Version != was.Version || now.ID != was.ID {
		t.Errorf("%+v, %v, was %+v", now.Job, err, was.Job)
	}
	if n := testutil.ToFloat64(service.metrics.processed.WithLabelValues(source.Disabled, "duplicate")); n < 1 {
		t.Errorf("%v are counted as duplicates", n)
	}
	if letters := s.letters(); len(letters) > 0 {
		t.Errorf("%v", letters)
	}
}

// TestKilled: connections to Postgres and to NATS are cut at random while two processes
// fold a random history, with repeats, and with events that come before the creation of
// their source. Every job is right, and what breaks a rule is one dead letter.
func TestKilled(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := newSite(t, patience)
	n := slowtest.N(400, 150)
	enabled := map[uuid.UUID]bool{}
	want := map[uint64]string{}
	var texts []string
	for i := range n {
		id := uuid.New()
		life := []string{s.event(source.Created, id, example)}
		enabled[id] = true
		for range rng.IntN(4) {
			enabled[id] = rng.IntN(2) == 0
			kind := map[bool]string{true: source.Enabled, false: source.Disabled}[enabled[id]]
			life = append(life, s.event(kind, id, source.Toggle{}))
		}
		if len(life) > 1 && rng.IntN(4) == 0 {
			life[0], life[1] = life[1], life[0]
		}
		if rng.IntN(3) == 0 {
			life = append(life, life[rng.IntN(len(life))])
		}
		texts = append(texts, life...)
		if i%20 == 0 {
			texts = append(texts, "no JSON")
			want[uint64(len(texts))] = "=json"
		}
	}
	_, _ = s.run()
	_, _ = s.run()
	killed := 0
	for len(texts) > 0 {
		part := min(len(texts), 1+rng.IntN(200))
		s.publish(texts[:part]...)
		texts = texts[part:]
		if rng.IntN(4) == 0 {
			s.nats.Stop()
			s.nats.Start()
			s.js = s.nats.JetStream()
		}
		// Those of candidates, too: a term ends and another one begins.
		_, err := s.store.Pool().Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if err == nil { // else its own connection was one of the last time
			killed++
		}
	}
	s.settled()
	s.store.Pool().Reset()
	if killed == 0 {
		t.Error("nothing was killed")
	}
	if letters := s.letters(); fmt.Sprint(letters) != fmt.Sprint(want) {
		t.Errorf("the letters are %v\nwant %v", letters, want)
	}
	for id, on := range enabled {
		d, err := s.store.OfSource(t.Context(), id)
		if err != nil || (d.Status == job.Pending) != on {
			t.Errorf("the job of a source that is enabled (%v) is %s: %v", on, d.Status, err)
		}
	}
}

// TestRemoved: an event that was removed from the stream while it waited for its source
// is noted as dead, and holds up nothing.
func TestRemoved(t *testing.T) {
	s := newSite(t, patience)
	id := uuid.New()
	s.publish(s.event(source.Disabled, id, nil))
	_, _ = s.run()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		p, err := s.store.Progress(t.Context(), stream.Sources)
		if p.Waiting == 1 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatal("the event does not wait", err)
		}
	}
	st, err := s.js.Stream(t.Context(), stream.Sources)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	s.publish(s.event(source.Created, id, example))
	s.settled()
	var dead int
	err = s.store.Pool().QueryRow(t.Context(),
		"SELECT count(*) FROM millrace.processed_events WHERE outcome = 'dead' AND seq = 1").Scan(&dead)
	if d, of := s.store.OfSource(t.Context(), id); err != nil || of != nil || dead != 1 || d.Status != job.Pending {
		t.Errorf("%d dead, %v, %+v, %v", dead, err, d, of)
	}
}

// TestAway: events that come while Postgres refuses, and while NATS is away, are
// applied when both are back.
func TestAway(t *testing.T) {
	s := newSite(t, time.Millisecond)
	_, _ = s.run()
	id := uuid.New()
	exec := func(sql string) {
		t.Helper()
		if _, err := s.store.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER TABLE millrace.processed_events RENAME TO hidden")
	s.publish(s.event(source.Created, id, example))
	s.nats.Stop()
	exec("ALTER TABLE millrace.hidden RENAME TO processed_events")
	s.nats.Start()
	s.settled()
	if d, err := s.store.OfSource(t.Context(), id); err != nil || d.Status != job.Pending {
		t.Errorf("%+v, %v", d, err)
	}
	if letters := s.letters(); len(letters) > 0 {
		t.Errorf("%v", letters)
	}
}

// TestNeeds: a service says what it needs.
func TestNeeds(t *testing.T) {
	if _, err := New(Config{}, Deps{}); err == nil || !strings.Contains(err.Error(), "needed") {
		t.Error(err)
	}
}

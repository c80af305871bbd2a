package enrichment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/sony/gobreaker/v2"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

var (
	pgEngine embeddedtest.Postgres
	chEngine embeddedtest.ClickHouse
)

func TestMain(m *testing.M) { os.Exit(embeddedtest.Main(m, &pgEngine, &chEngine)) }

// patience is how long a test waits for what has to happen.
const patience = 2 * time.Minute

// site has outcomes as the projector has stored them.
type site struct {
	*testing.T
	nats *natstest.Server
	kv   jetstream.KeyValue
	ch   *clickhouse.Options
	conn driver.Conn
	pool *pgxpool.Pool
	seq  uint64
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, nats: natstest.Start(t, stream.Config{}), ch: chEngine.Database(t), pool: pgEngine.Pool(t)}
	var err error
	if s.kv, err = s.nats.JetStream().KeyValue(t.Context(), stream.Checkpoints); err != nil {
		t.Fatal(err)
	}
	if s.conn, err = clickhouse.Open(s.ch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// store stores a batch of items, of which the last one is an error, and says that it is stored.
func (s *site) store(items int) {
	s.Helper()
	s.seq++
	for position := range items {
		status, category := "success", ""
		if position == items-1 {
			status, category = "error", "network"
		}
		s.outcome(s.seq, position, 0, status, category)
	}
	s.stored(s.seq)
}

// outcome stores an outcome of an item of a batch.
func (s *site) outcome(batch uint64, position, version int, status, category string) {
	s.Helper()
	b, err := s.conn.PrepareBatch(s.Context(), `INSERT INTO item_outcomes (job_id, batch_index, position, version, content_id,
		fetch_status, error_category, content, read_at, created_at, seq)`)
	if err == nil {
		id := fmt.Sprintf("%d-%d", batch, position)
		now := time.Now().UTC()
		err = b.Append("proj_xyz-brand-0", uint32(batch), uint32(position), uint64(version), id, status, category,
			fmt.Sprintf(`{"content_id":%q,"text":"good good day","interaction":{"views":99,"likes":0}}`, id), now, now, s.seq)
	}
	if err == nil {
		err = b.Send()
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) stored(upto uint64) {
	s.Helper()
	value, err := json.Marshal(checkpoint.Record[struct{}]{From: upto, To: upto})
	if err == nil {
		_, err = s.kv.Put(s.Context(), stream.BatchesCheckpoint, value)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// run runs a service, as a new process would.
func (s *site) run(cfg Config) (service *Service, stop func()) {
	s.Helper()
	service, err := New(cfg, Deps{
		NATS: s.nats.Connect(), ClickHouse: s.ch, Postgres: s.pool, Registry: prometheus.NewRegistry(),
		Log: embeddedtest.Log(s),
	})
	if err != nil {
		s.Fatal(err)
	}
	service.analyser.pause, service.look = 5*time.Millisecond, 100*time.Millisecond
	return service, embeddedtest.Go(s, service.Run)
}

// answer answers as an analyser, until the test ends.
func (s *site) answer(with func(schema.AnalyserRequest) any) (stop func()) {
	s.Helper()
	sub, err := s.nats.Connect().Subscribe(stream.Analyse, func(m *nats.Msg) {
		var r schema.AnalyserRequest
		if err := json.Unmarshal(m.Data, &r); err != nil {
			s.Errorf("the request %.200q: %v", m.Data, err)
		}
		reply := with(r)
		if reply == nil {
			return
		}
		text, err := json.Marshal(reply)
		if err == nil {
			err = m.Respond(text)
		}
		if err != nil {
			s.Errorf("answer: %v", err)
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	return func() { _ = sub.Unsubscribe() }
}

// positive is the answer of an analyser that finds everything good.
func positive(r schema.AnalyserRequest) any {
	reply := schema.AnalyserReply{Analyser: "test/1", Items: make([]schema.Analysis, len(r.Items))}
	for n := range r.Items {
		score := .5
		reply.Items[n] = schema.Analysis{
			Sentiment: "positive", SentimentScore: &score, Keywords: []string{r.Items[n].ContentID, "day"}, Risk: "low",
			Language: "en", Intent: "praise",
		}
	}
	return reply
}

// await waits until a query over what analysts see counts so many.
func (s *site) await(want uint64, where string) {
	s.Helper()
	var n uint64
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err := s.conn.QueryRow(s.Context(), "SELECT count() FROM post_analytics WHERE "+where).Scan(&n); err != nil {
			s.Fatal(err)
		}
		if n == want {
			return
		}
		if time.Since(begin) > patience {
			s.Fatalf("%d items meet %s, want %d", n, where, want)
		}
	}
}

// TestFormulas enriches without an analyser, and then with one from the beginning.
func TestFormulas(t *testing.T) {
	s := newSite(t)
	s.store(5)
	s.store(3)
	_, stop := s.run(Config{})
	s.await(6, "impact = 25 AND engagement = 0 AND engagement_rate = 0 AND analysed_at IS NOT NULL AND sentiment = ''")
	s.await(2, "analysed_at IS NULL AND fetch_status = 'error' AND impact IS NULL")
	s.store(2)
	s.await(7, "impact = 25")
	stop()
	s.answer(positive)
	s.run(Config{Analyse: true})
	s.await(7, "sentiment = 'positive' AND sentiment_score = 0.5 AND has(keywords, content_id) AND risk = 'low' AND "+
		"language = 'en' AND intent = 'praise' AND analyser = 'test/1' AND impact = 25")
}

// TestRetry: the analysis of an outcome is not that of the one that replaces it (invariant 4).
func TestRetry(t *testing.T) {
	s := newSite(t)
	s.store(2)
	s.run(Config{})
	s.await(1, "impact = 25")
	s.seq++
	s.outcome(1, 1, 1, "success", "")
	s.stored(s.seq)
	s.await(2, "impact = 25")
	s.await(1, "impact = 25 AND attempts = 1")
	s.seq++
	s.outcome(1, 1, 2, "error", "network")
	s.stored(s.seq)
	s.await(1, "attempts = 2 AND impact IS NULL AND analysed_at IS NULL")
}

// TestAgain: analyses that somebody deletes are made again while the service runs.
func TestAgain(t *testing.T) {
	s := newSite(t)
	s.store(3)
	s.store(3)
	s.run(Config{})
	s.await(4, "impact = 25")
	for _, statement := range []string{"ALTER TABLE item_analyses DELETE WHERE seq > 1 SETTINGS mutations_sync = 2", "TRUNCATE TABLE item_analyses"} {
		if err := s.conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		s.await(4, "impact = 25")
	}
}

// TestAgainMeanwhile: analyses that are deleted while an analyser is at work on later ones are made again, too.
func TestAgainMeanwhile(t *testing.T) {
	s := newSite(t)
	s.store(3)
	s.store(3)
	s.run(Config{Analyse: true})
	stop := s.answer(positive)
	s.await(4, "sentiment = 'positive'")
	stop()
	var once sync.Once
	s.answer(func(r schema.AnalyserRequest) any {
		once.Do(func() {
			if err := s.conn.Exec(t.Context(), "DELETE FROM item_analyses WHERE seq >= 1"); err != nil {
				t.Error(err)
			}
		})
		return positive(r)
	})
	s.store(3)
	s.await(6, "sentiment = 'positive'")
}

// TestAway: while nobody answers everything waits, the circuit breaker opens, and outcomes come
// as before; what waited is analysed when somebody answers (invariants 1 and 5).
func TestAway(t *testing.T) {
	slowtest.Mark(t)
	s := newSite(t)
	s.store(4)
	service, _ := s.run(Config{Analyse: true, Timeout: time.Second})
	for begin := time.Now(); testutil.ToFloat64(service.metrics.open) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatal("the circuit breaker does not open")
		}
	}
	s.store(4)
	s.await(8, "1")
	s.await(0, "analysed_at IS NOT NULL")
	if n, err := service.backlog(t.Context()); err != nil || n != 6 {
		t.Errorf("the backlog is %d, want 6: %v", n, err)
	}
	s.answer(positive)
	s.await(6, "sentiment = 'positive'")
	if n, err := service.backlog(t.Context()); err != nil || n != 0 {
		t.Errorf("the backlog is %d, want 0: %v", n, err)
	}
}

// TestNotAsked: what the circuit breaker holds back is no request, and not counted as one.
func TestNotAsked(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	m.asked(nats.ErrNoResponders, time.Millisecond)
	m.asked(gobreaker.ErrOpenState, 0)
	m.asked(gobreaker.ErrTooManyRequests, 0)
	var away dto.Metric
	if err := m.requests.WithLabelValues("away").(prometheus.Metric).Write(&away); err != nil {
		t.Fatal(err)
	}
	if n := away.Histogram.GetSampleCount(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestWrong: an item that an analyser answers wrongly, or not at all, is stored with that error,
// and the others are analysed (invariant 5).
func TestWrong(t *testing.T) {
	slowtest.Mark(t)
	for name, answer := range map[string]func(schema.AnalyserRequest) any{
		"nothing":       func(schema.AnalyserRequest) any { return nil },
		"another count": func(schema.AnalyserRequest) any { return schema.AnalyserReply{Analyser: "test/1"} },
		"an error":      func(schema.AnalyserRequest) any { return map[string]string{"error": "no"} },
		"no object":     func(schema.AnalyserRequest) any { return 7 },
		"a bad value": func(r schema.AnalyserRequest) any {
			reply := positive(r).(schema.AnalyserReply)
			for n, i := range r.Items {
				if i.ContentID == "1-2" {
					reply.Items[n].Sentiment = "fine"
				}
			}
			return reply
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.store(5)
			s.answer(func(r schema.AnalyserRequest) any {
				if slices.ContainsFunc(r.Items, func(i schema.AnalyserItem) bool { return i.ContentID == "1-2" }) {
					return answer(r)
				}
				return positive(r)
			})
			service, _ := s.run(Config{Analyse: true, Timeout: 300 * time.Millisecond})
			s.await(1, "content_id = '1-2' AND analysis_error != '' AND sentiment = '' AND impact = 25")
			s.await(3, "sentiment = 'positive' AND analysis_error = ''")
			if n := testutil.ToFloat64(service.metrics.items.WithLabelValues("error")); n != 1 {
				t.Errorf("%v items are counted as errors", n)
			}
		})
	}
}

// TestResume ends the service again and again while it works: nothing is left out, and nothing is
// there twice (invariants 2 and 3).
func TestResume(t *testing.T) {
	slowtest.Mark(t)
	s := newSite(t)
	const batches, size = 30, 20
	var asked atomic.Int64
	s.answer(func(r schema.AnalyserRequest) any {
		asked.Add(int64(len(r.Items)))
		time.Sleep(10 * time.Millisecond)
		return positive(r)
	})
	for range batches / 2 {
		s.store(size)
	}
	for n := range int64(4) {
		_, stop := s.run(Config{Analyse: true})
		for begin := time.Now(); asked.Load() < 60*(n+1) && time.Since(begin) < patience; time.Sleep(time.Millisecond) {
		}
		stop()
	}
	for range batches / 2 {
		s.store(size)
	}
	s.run(Config{Analyse: true})
	s.await(batches*(size-1), "sentiment = 'positive' AND has(keywords, content_id)")
	var rows, distinct uint64
	err := s.conn.QueryRow(t.Context(), `SELECT count(), uniqExact(job_id, batch_index, position, version)
		FROM item_analyses FINAL`).Scan(&rows, &distinct)
	if err != nil || rows != batches*(size-1) || distinct != rows {
		t.Errorf("%d rows of %d outcomes: %v", rows, distinct, err)
	}
}

// TestMonths: rows of several months are inserted one month after the other, in their order, since an insert that a crash
// interrupts may leave one of its partitions (invariant 2).
func TestMonths(t *testing.T) {
	at := func(month time.Month, day int) item {
		return item{readAt: time.Date(2026, month, day, 23, 0, 0, 0, time.UTC)}
	}
	for n, items := range map[int][]item{
		1: {at(1, 31), at(2, 1), at(1, 31)},
		2: {at(1, 1), at(1, 31), at(2, 1)},
		3: {at(3, 1), at(3, 2), at(3, 3)},
	} {
		if got := sameMonth(items); got != n {
			t.Errorf("%d rows of %v are inserted at once, want %d", got, items, n)
		}
	}
	s := newSite(t)
	s.store(3)
	conn := &failing{Conn: s.conn, left: 1}
	items := []item{at(1, 31), at(2, 1)}
	items[0].seq, items[1].seq = 1, 2
	if err := (tables{conn}).write(t.Context(), items, make([]analysis, 2), 1); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	if last, err := (tables{s.conn}).number(t.Context(), "position", uint8(1)); err != nil || last != 1 {
		t.Errorf("after the first of two inserts the last sequence is %d, want 1: %v", last, err)
	}
}

var errRefused = errors.New("refused")

// failing is a connection that takes so many inserts.
type failing struct {
	driver.Conn
	left int
}

func (f *failing) PrepareBatch(ctx context.Context, query string, opts ...driver.PrepareBatchOption) (driver.Batch, error) {
	if f.left--; f.left < 0 {
		return nil, errRefused
	}
	return f.Conn.PrepareBatch(ctx, query, opts...)
}

// TestSilence: an item is not to blame while nobody answers at all, however often that is (invariant 5).
func TestSilence(t *testing.T) {
	slowtest.Mark(t)
	s := newSite(t)
	s.store(2)  // of which one is enriched
	silent := 0 // requests with the item
	s.answer(func(r schema.AnalyserRequest) any {
		if silent >= tries {
			return positive(r)
		}
		silent += len(r.Items)
		return nil
	})
	s.run(Config{Analyse: true, Timeout: 100 * time.Millisecond})
	s.await(1, "sentiment = 'positive' AND analysis_error = ''")
}

package batches

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

var (
	pgEngine embeddedtest.Postgres
	chEngine embeddedtest.ClickHouse
)

func TestMain(m *testing.M) { os.Exit(embeddedtest.Main(m, &pgEngine, &chEngine)) }

// patience is how long a test waits for what has to happen.
const patience = 3 * time.Minute

// site is a stream and the databases of one test.
type site struct {
	*testing.T
	nats *natstest.Server
	js   jetstream.JetStream
	ch   *clickhouse.Options
	conn driver.Conn
	pool *pgxpool.Pool
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, nats: natstest.Start(t, stream.Config{}), ch: chEngine.Database(t), pool: pgEngine.Pool(t)}
	s.js = s.nats.JetStream()
	var err error
	if s.conn, err = clickhouse.Open(s.ch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// run runs a service, as a new process would, until it is stopped.
func (s *site) run() (stop func()) {
	s.Helper()
	service, err := New(Deps{
		NATS: s.nats.Connect(), ClickHouse: s.ch, Postgres: s.pool, Registry: prometheus.NewRegistry(),
		Log: embeddedtest.Log(s),
	})
	if err != nil {
		s.Fatal(err)
	}
	return embeddedtest.Go(s, service.Run)
}

// exec runs statements of Postgres.
func (s *site) exec(sql string) {
	s.Helper()
	if _, err := s.pool.Exec(s.Context(), sql); err != nil {
		s.Fatal(err)
	}
}

// batch is what Postgres and ClickHouse must have of a batch.
type batch struct {
	Count, OK, Error, Retrying int
	Codes                      map[string]int
	Conflict                   string   // hash of the first other content
	Items, Errors              []string // in their order
}

// history is what was published, and what a plain loop makes of it.
type history struct {
	rng     *rand.Rand
	reads   []*schema.Read
	hashes  map[schema.ID][32]byte
	want    map[schema.ID]*batch
	letters int
	torn    bool // the last message is a part whose value does not follow
}

func newHistory(seed uint64) *history {
	return &history{
		rng: rand.New(rand.NewPCG(seed, seed)), hashes: map[schema.ID][32]byte{}, want: map[schema.ID]*batch{},
	}
}

var codes = []string{"RATE_LIMITED", "TIMEOUT", "CONTENT_REMOVED", "QUOTA\x00", "", "MEDIA_TOO_LARGE"}

// item is the text of an item: of one in some it cannot be read.
func (h *history) item(pad int) string {
	id, long := h.rng.IntN(40), strings.Repeat("ữ", h.rng.IntN(20))
	if pad > 0 {
		random := make([]byte, pad)
		for i := range random {
			random[i] = byte(h.rng.Uint32())
		}
		long = hex.EncodeToString(random)
	}
	switch code, _ := json.Marshal(codes[h.rng.IntN(len(codes))]); h.rng.IntN(6) {
	case 0:
		return fmt.Sprintf(`{"id":%d,"fetch_status":"error","error_code":%s,"fetch_error":%q}`, id, code, long)
	case 1:
		return "no item " + long
	default:
		return fmt.Sprintf(`{"content_id":"%d","fetch_status":"success","crawled_at":"2026-02-10T14:30:00Z","text":%q}`, id, long)
	}
}

// read is what was read of a batch, of one that was read before in some.
func (h *history) read() *schema.Read {
	fresh := h.torn // so that its loss would be noticed
	h.torn = false
	if n := len(h.reads); n > 0 && !fresh && h.rng.IntN(4) == 0 {
		return h.reads[h.rng.IntN(n)] // again
	}
	job := []string{"proj_xyz-brand-0", "a-b-competitor-3", "c0ffee00-0000-4000-8000-000000000000", "legacy"}[h.rng.IntN(4)]
	index := h.rng.IntN(12)
	if fresh {
		index = 1000 + len(h.reads)
	}
	text := fmt.Sprintf(`{"payload":{"minio_path":"crawl/a/%d.json","job_id":%q,"batch_index":%d,"platform":"tiktok"}}`,
		len(h.reads), job, index)
	a, broken := schema.ReadAnnouncement([]byte(text))
	if broken != nil {
		panic(broken)
	}
	items, pad := h.rng.IntN(30), 0
	if h.rng.IntN(12) == 0 { // in several messages
		items, pad = 4, 300<<10
	}
	r := &schema.Read{About: a, AnnouncedAt: time.Now().UTC()}
	sum := sha256.New()
	for range items {
		text := h.item(pad)
		sum.Write([]byte(text))
		r.Items = append(r.Items, schema.Item{Outcome: schema.ReadItem([]byte(text)), Content: []byte(text)})
	}
	sum.Write([]byte{byte(len(h.reads))}) // what has no items has other content, too
	sum.Sum(r.Hash[:0])
	h.reads = append(h.reads, r)
	return r
}

// count adds what was read as a plain loop would.
func (h *history) count(r *schema.Read) {
	id := r.About.Batch
	if first, there := h.hashes[id]; there {
		if first != r.Hash && h.want[id].Conflict == "" {
			h.want[id].Conflict = hex.EncodeToString(r.Hash[:])
		}
		return
	}
	b := &batch{Count: len(r.Items), Codes: map[string]int{}}
	for i := range r.Items {
		item := &r.Items[i]
		row := fmt.Sprintf("%d %s %s %s %x", i, item.ContentID, item.Category, item.Code, sha256.Sum256(item.Content))
		b.Items = append(b.Items, row)
		if item.OK() {
			b.OK++
			continue
		}
		if _, again := item.Category.Retry(); again {
			b.Retrying++
		} else {
			b.Error++
		}
		b.Codes[strings.ReplaceAll(item.Code, "\x00", "\ufffd")]++
		b.Errors = append(b.Errors, fmt.Sprintf("%d %s %s %s", i, item.ContentID, item.Category, item.Code))
	}
	h.hashes[id], h.want[id] = r.Hash, b
}

// publishRead publishes what was read of a batch, as readers do.
func publishRead(t testing.TB, js jetstream.JetStream, r *schema.Read) {
	t.Helper()
	form, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	value, err := parts.Cut(js, stream.BatchesReadSubject, form)
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), patience) // a busy machine is no failure
		defer cancel()
		err = parts.Publish(ctx, js, value)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// publish publishes n readings, and between them what is none.
func (s *site) publish(h *history, n int) {
	s.Helper()
	for range n {
		r := h.read()
		publishRead(s, s.js, r)
		h.count(r)
		if h.rng.IntN(10) > 0 {
			continue
		}
		for _, text := range [][]byte{[]byte("no part"), {0, 0, 0, 2, 1, 2, 3}}[:1+h.rng.IntN(2)] {
			if _, err := s.js.Publish(s.Context(), stream.BatchesReadSubject, text); err != nil {
				s.Fatal(err)
			}
			h.letters++ // the second one, once another value follows it
			h.torn = text[0] == 0
		}
	}
}

const sqlBatches = `SELECT job_id, batch_index, content_count, ok, error, retrying, errors, coalesce(conflict->>'content_hash', '')
	FROM millrace.batch`

// postgres is what Postgres has.
func (s *site) postgres() (map[schema.ID]*batch, error) {
	rows, err := s.pool.Query(s.Context(), sqlBatches)
	if err != nil {
		return nil, err
	}
	all := map[schema.ID]*batch{}
	var id schema.ID
	var b batch
	_, err = pgx.ForEachRow(rows, []any{
		&id.Job, &id.Index, &b.Count, &b.OK, &b.Error, &b.Retrying, &b.Codes, &b.Conflict,
	}, func() error {
		if b.OK+b.Error+b.Retrying != b.Count {
			s.Errorf("%+v: %d ok and %d errors and %d that are retried are not %d", id, b.OK, b.Error, b.Retrying, b.Count)
		}
		next := b
		all[id], b.Codes = &next, nil
		return nil
	})
	return all, err
}

// look compares the numbers of every batch with its outcomes, as people see them.
func (s *site) look() error {
	all, err := s.postgres()
	if err != nil {
		return err
	}
	got := map[schema.ID]*batch{}
	rows, err := s.conn.Query(s.Context(), `SELECT job_id, batch_index, toInt64(count()), toInt64(countIf(fetch_status = 'success'))
		FROM post_analytics GROUP BY job_id, batch_index`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var job string
		var index uint32
		var n, ok int64
		if err := rows.Scan(&job, &index, &n, &ok); err != nil {
			return err
		}
		got[schema.ID{Job: job, Index: int32(index)}] = &batch{Count: int(n), OK: int(ok)}
	}
	for id, b := range all {
		has := got[id]
		if has == nil {
			has = &batch{}
		}
		if has.Count != b.Count || has.OK != b.OK {
			s.Errorf("%+v has %d outcomes, %d of them ok; its row says %d and %d", id, has.Count, has.OK, b.Count, b.OK)
		}
	}
	return rows.Err()
}

// outcomes adds what ClickHouse has of each item.
func (s *site) outcomes(all map[schema.ID]*batch) {
	s.Helper()
	for _, q := range []struct {
		sql string
		to  func(*batch) *[]string
	}{
		{`SELECT job_id, batch_index, concat(toString(position), ' ', content_id, ' ', toString(error_category), ' ',
			toString(error_code), ' ', lower(hex(SHA256(content))))
			FROM item_outcomes ORDER BY job_id, batch_index, position`, func(b *batch) *[]string { return &b.Items }},
		{`SELECT job_id, batch_index, concat(toString(position), ' ', content_id, ' ', error_category, ' ', error_code)
			FROM crawl_errors ORDER BY job_id, batch_index, position`, func(b *batch) *[]string { return &b.Errors }},
	} {
		rows, err := s.conn.Query(s.Context(), q.sql)
		if err != nil {
			s.Fatal(err)
		}
		for rows.Next() {
			var job, row string
			var index uint32
			if err := rows.Scan(&job, &index, &row); err != nil {
				s.Fatal(err)
			}
			b := all[schema.ID{Job: job, Index: int32(index)}]
			if b == nil {
				s.Fatalf("%s/%d has outcomes and no row", job, index)
			}
			*q.to(b) = append(*q.to(b), row)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			s.Fatal(err)
		}
	}
}

// settled waits until all that is on the stream is stored.
func (s *site) settled() {
	s.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		st, err := s.js.Stream(s.Context(), stream.BatchesRead)
		if err == nil {
			var kv jetstream.KeyValue
			if kv, err = s.js.KeyValue(s.Context(), stream.Checkpoints); err == nil {
				var entry jetstream.KeyValueEntry
				if entry, err = kv.Get(s.Context(), stream.BatchesCheckpoint); err == nil {
					var at struct{ From, To uint64 }
					err = json.Unmarshal(entry.Value(), &at)
					if last := st.CachedInfo().State.LastSeq; err == nil && at.From >= last && at.To <= at.From {
						return
					}
				}
			}
		}
		if time.Now().After(end) {
			s.Fatalf("not all is stored: %v", err)
		}
	}
}

// TestHistories: outcomes and counts equal those of a plain loop (invariants 1 to 5), though
// readings come again, contradict each other and are none, processes are killed, and
// Postgres refuses after ClickHouse has taken. At every look the numbers add up, and all
// outcomes of a batch are there that has a row.
func TestHistories(t *testing.T) {
	slowtest.Mark(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s, h := newSite(t), newHistory(seed)
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF random() < 0.02 THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`)
	s.exec(`CREATE TRIGGER refuse BEFORE INSERT ON millrace.batch FOR EACH ROW EXECUTE FUNCTION refuse()`)
	var over atomic.Bool
	looked := make(chan int, 1)
	go func() {
		n := 0
		for ; !over.Load(); n++ {
			if err := s.look(); err != nil && !over.Load() {
				t.Errorf("look: %v", err)
				break
			}
		}
		looked <- n
	}()
	for range 12 {
		stop := s.run()
		s.publish(h, 10+h.rng.IntN(10))
		end := time.Now().Add(time.Duration(h.rng.IntN(300)) * time.Millisecond)
		for time.Now().Before(end) {
			s.publish(h, 1)
		}
		stop()
	}
	stop := s.run()
	r := h.read() // ends what has begun
	publishRead(t, s.js, r)
	h.count(r)
	s.settled()
	stop()
	over.Store(true)
	if n := <-looked; n < 5 {
		t.Errorf("there were %d looks", n)
	}
	s.equal(h)
}

// equal compares what is stored with the plain loop.
func (s *site) equal(h *history) {
	s.Helper()
	got, err := s.postgres()
	if err != nil {
		s.Fatal(err)
	}
	s.outcomes(got)
	for _, id := range slices.Collect(maps.Keys(h.want)) {
		if !reflect.DeepEqual(got[id], h.want[id]) {
			s.Errorf("%+v\ngot  %+v\nwant %+v", id, got[id], h.want[id])
		}
	}
	if len(got) != len(h.want) {
		s.Errorf("%d batches, want %d", len(got), len(h.want))
	}
	dlq, err := s.js.Stream(s.Context(), stream.DLQ)
	if err != nil {
		s.Fatal(err)
	}
	if n := int(dlq.CachedInfo().State.Msgs); n != h.letters {
		s.Errorf("%d dead letters, want %d", n, h.letters)
	}
}

// TestRates: the gauges are those of the items that were read just now, by known platforms.
func TestRates(t *testing.T) {
	s := newSite(t)
	service, err := New(Deps{
		NATS: s.nats.Connect(), ClickHouse: s.ch, Postgres: s.pool, Registry: prometheus.NewRegistry(),
		Log: embeddedtest.Log(s),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, of := range []struct {
		platform  string
		ok, error int
		ago       string
	}{{"TikTok", 8, 2, "0"}, {"tiktok", 8, 2, "1 minute"}, {"tiktok", 0, 9, "1 hour"}, {"a", 1, 0, "0"}, {"b", 0, 3, "0"}, {"youtube", 0, 0, "0"}} {
		s.exec(fmt.Sprintf(`INSERT INTO millrace.batch (job_id, batch_index, platform, format, content_count, ok, error,
			content_hash, announced_at, read_at, changed_at, seq) VALUES ('a', %d, '%s', 'inline', %d, %d, %d, '', now(),
			now() - interval '%s', now(), %[1]d)`, i, of.platform, of.ok+of.error, of.ok, of.error, of.ago))
	}
	got := map[string]float64{}
	for _, g := range service.Gauges() {
		if err := g.Read(t.Context(), func(g *prometheus.Desc, value float64, labels ...string) {
			name, _, _ := strings.Cut(strings.TrimPrefix(g.String(), `Desc{fqName: "millrace_batches_`), `"`)
			got[name+" "+labels[0]] = value
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{
		"success_rate tiktok": 0.8, "error_rate tiktok": 0.2, "success_rate other": 0.25, "error_rate other": 0.75,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPurge: what is stored leaves the stream, and nothing else.
func TestPurge(t *testing.T) {
	s, h := newSite(t), newHistory(1)
	service, err := New(Deps{
		NATS: s.nats.Connect(), ClickHouse: s.ch, Postgres: s.pool, Registry: prometheus.NewRegistry(),
		Log: embeddedtest.Log(s),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.publish(h, 20)
	st, err := s.js.Stream(t.Context(), stream.BatchesRead)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); service.purge(ctx, time.Millisecond, func() uint64 { return 7 }) }()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		info, err := st.Info(t.Context())
		if err == nil && info.State.FirstSeq == 8 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the stream has %+v: %v", info, err)
		}
	}
	cancel()
	<-done
	if info, err := st.Info(t.Context()); err != nil || info.State.FirstSeq != 8 {
		t.Errorf("%+v, %v", info, err)
	}
}

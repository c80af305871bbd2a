package reconcile

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/history"
	"github.com/millrace-io/millrace/ingest/history/historytest"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	postgres   embeddedtest.Postgres
	clickHouse embeddedtest.ClickHouse
)

type both struct{ m *testing.M }

func (b both) Run() int { return postgres.Main(b.m) }

func TestMain(m *testing.M) { os.Exit(clickHouse.Main(both{m})) }

// world is a source and what Millrace has counted of it.
type world struct {
	t         *testing.T
	pool      *pgxpool.Pool
	ch        driver.Conn
	table     *history.EventsTable
	sources   []*history.Source
	nats      *natstest.Server
	publisher *client.Publisher
	folded    map[event.Identity]bool
	seq       uint64 // of the stream, up to which it is folded
}

// shared are the databases of all tests, which run one after another.
var shared struct {
	dsn string
	ch  *clickhouse.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	created := shared.ch != nil
	if !created {
		shared.dsn, shared.ch = postgres.DSN(t), clickHouse.Database(t)
	}
	w := &world{t: t, nats: natstest.Start(t, stream.Config{}), folded: map[event.Identity]bool{}}
	w.pool = must(pgxpool.New(t.Context(), shared.dsn))
	t.Cleanup(w.pool.Close)
	w.ch = must(clickhouse.Open(shared.ch))
	w.table = must(history.OpenEvents(shared.ch))
	t.Cleanup(func() { w.ch.Close(); w.table.Close() })
	if created {
		w.exec(`DROP TABLE job_executions, classification_history, publish_history`)
		for _, table := range []string{"events", "events_daily", "retired"} {
			if err := w.ch.Exec(t.Context(), "TRUNCATE TABLE "+table); err != nil {
				t.Fatal(err)
			}
		}
	}
	historytest.Create(t, w.pool)
	for _, table := range history.Tables() {
		src := must(history.Open(t.Context(), w.pool.Config().ConnString(), table))
		t.Cleanup(src.Close)
		w.sources = append(w.sources, src)
	}
	w.publisher = must(client.New(w.nats.Connect(), client.Config{}))
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	historytest.Exec(w.t, w.pool, query, args...)
}

// count adds events to the events table: n of a stage, of articles from 1 on,
// from a time on and so far apart.
func (w *world) count(stage string, n int, from string, every time.Duration, where string) {
	w.t.Helper()
	w.insert(fmt.Sprintf(`SELECT 0, fromUnixTimestamp64Nano(toUnixTimestamp64Nano(toDateTime64('%s', 9,
		'UTC')) + toInt64(number + 1) * %d, 'UTC'), '%s', SHA256(concat('https://example.com/article-', toString(number + 1))), 'https://example.com/article-', 'example.com', false
		FROM numbers(%d) WHERE %s`, from, every, stage, n, where))
}

func (w *world) insert(rows string) {
	w.t.Helper()
	if err := w.ch.Exec(
		w.t.Context(),
		"INSERT INTO events (seq, occurred_at, stage, article_hash, article_url, domain, backfilled) "+rows,
	); err != nil {
		w.t.Fatal(err)
	}
}

// fold does with the stream what the projector does: each identity once.
func (w *world) fold() {
	w.t.Helper()
	s := must(w.nats.JetStream().Stream(w.t.Context(), stream.Events))
	c := must(s.OrderedConsumer(
		w.t.Context(), jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:   w.seq + 1,
		},
	))
	var values []string
	for left := int(s.CachedInfo().State.LastSeq - w.seq); left > 0; {
		batch := must(c.Fetch(min(left, 1000)))
		for m := range batch.Messages() {
			var r event.Record
			if err := event.Decode(m.Data(), &r); err != nil {
				w.t.Fatal(err)
			}
			if id := r.Identity(); !w.folded[id] {
				w.folded[id] = true
				values = append(values,
					fmt.Sprintf("(1, fromUnixTimestamp64Nano(toInt64(%d), 'UTC'), '%s', unhex('%x'), '%s', '%s', true)",
						r.OccurredAt, r.Stage, r.URLHash, r.ArticleURL, r.Domain))
			}
			left--
		}
	}
	w.seq = s.CachedInfo().State.LastSeq
	if len(values) > 0 {
		w.insert("VALUES " + strings.Join(values, ", "))
	}
}

const date = "2026-02-10"

func (w *world) report(outages ...Outage) *Report {
	w.t.Helper()
	return w.reportIn(time.UTC, outages...)
}

func (w *world) reportIn(zone *time.Location, outages ...Outage) *Report {
	w.t.Helper()
	r := must(New(w.table, w.sources, outages))
	return must(r.Day(w.t.Context(), must(time.ParseInLocation(time.DateOnly, date, zone)), zone))
}

func (w *world) replay(report *Report) {
	w.t.Helper()
	r := must(New(w.table, w.sources, nil))
	if err := r.Replay(w.t.Context(), report, w.publisher); err != nil {
		w.t.Fatal(err)
	}
}

func golden(t *testing.T, name string, report *Report) {
	t.Helper()
	var b bytes.Buffer
	if err := report.Print(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := must(os.ReadFile(path)); !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

// deltas are a report's, with the statuses.
func deltas(r *Report) (text string) {
	for _, s := range r.Stages {
		text += fmt.Sprintf("%s%+d %s  ", s.Name[:1], s.Delta, s.Status)
	}
	return strings.TrimSpace(text)
}

var redis = Outage{
	Name: "Redis outage", From: must(time.Parse(time.RFC3339, date+"T14:20:00Z")),
	Until:  must(time.Parse(time.RFC3339, date+"T14:35:00Z")),
	Stages: []string{"published"},
}

// TestSpecification holds the format by the worked example.
func TestSpecification(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO job_executions (job_id, status, started_at, items_crawled, items_indexed) VALUES
		(gen_random_uuid(), '', '2026-02-10 01:00Z', 70000, 68000), (gen_random_uuid(), '', '2026-02-10 23:59:59.999999Z', 5480, 345),
		(gen_random_uuid(), '', '2026-02-11 00:00Z', 1000, 1000), (gen_random_uuid(), '', '2026-02-09 23:59:59Z', 1000, 1000)`)
	w.exec(`INSERT INTO classification_history (content_url, classified_at) SELECT 'https://example.com/article-' ` +
		`|| n, '2026-02-10'::timestamp + n * interval '1 s' FROM generate_series(1, 10002) n`)
	w.exec(`INSERT INTO publish_history (article_url, published_at) SELECT 'https://example.com/article-' || n, ` +
		`'2026-02-10Z'::timestamptz + n * interval '5 s' FROM generate_series(1, 11990) n`)
	w.count("crawled", 75480, date, time.Second, "true")
	w.count("indexed", 68340, date, time.Second, "true")
	w.count("classified", 10002, date, time.Second, "true")
	w.count("routed", 11990, date, 5*time.Second, "true")
	w.count("published", 11990, date, 5*time.Second, "number NOT BETWEEN 10325 AND 10329") // from 14:20:30 on
	w.count("classified", 10, "2026-02-11", time.Second, "true")
	report := w.report(redis)
	golden(t, "specification", report)
	if !report.Unexpected() {
		t.Error("no gap is unexpected")
	}
	var back map[string]any
	if err := json.Unmarshal(must(json.Marshal(report)), &back); err != nil || back["date"] != date ||
		len(back["stages"].([]any)) != 5 || len(back["replay_plan"].([]any)) != 1 {
		t.Errorf("%v %v", back, err)
	}
	golden(t, "unexplained", w.report())
	early := redis
	early.From, early.Until = redis.From.Add(-time.Hour), redis.From
	if got := w.report(early).Stages[4]; got.Status != Unexpected {
		t.Errorf("%+v: what is missing lies outside of the outage", got)
	}
	golden(t, "zone", w.reportIn(must(time.LoadLocation("Europe/Berlin"))))
	w.replay(report)
	golden(t, "replayed", report)
	w.fold()
	golden(t, "after", w.report(redis))
}

// TestReplayRows holds invariants 2 to 4 for tables with URLs.
func TestReplayRows(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO classification_history (content_url, classified_at) VALUES
		('https://example.com/article-1', '2026-02-10 10:00'), ('https://example.com/article-1', '2026-02-10 11:00'),
		('https://example.com/article-2', '2026-02-10 10:00:00.5'), ('https://example.com/article-3', '2026-02-10 23:59:59.9'),
		('https://example.com/article-4', '2026-02-10 00:00:00'), ('https://example.com/article-5', '2026-02-10 10:00'), ('nothing', '2026-02-10 10:00')`)
	events := [][2]string{
		{"1", "2026-02-10 11:00:00"},           // the later of two
		{"2", "2026-02-10 10:00:00.500000123"}, // finer than the row
		{"3", "2026-02-11 00:00:00.1"},         // over midnight
		{"4", "2026-02-09 23:59:59.9"},         // likewise
		{"6", "2026-02-10 12:00:00"},           // without a row
	}
	for _, e := range events {
		w.insert(fmt.Sprintf("SELECT 0, toDateTime64('%s', 9, 'UTC'), 'classified', "+
			"SHA256('https://example.com/article-%s'), '', '', false", e[1], e[0]))
	}
	report := w.report()
	if got := deltas(report); got != "c+0 OK  i+0 OK  c-4 UNEXPECTED  r+0 OK  p+0 OK" {
		t.Error(got)
	}
	for range 2 { // the second before the first has been folded
		w.replay(report)
		if got := report.Plan[0].Events; got != 2 {
			t.Errorf("%d events are replayed, want the earlier one of article 1, and that of article 5", got)
		}
	}
	w.fold()
	report = w.report() // 3 and 4 lie on other days here, and one row is no event
	if got := deltas(report); got != "c+0 OK  i+0 OK  c-2 UNEXPECTED  r+0 OK  p+0 OK" {
		t.Error(got)
	}
	w.replay(report)
	if got := report.Plan[0].Events; got != 0 {
		t.Errorf("%d events are replayed again", got)
	}
}

// TestReplayItems holds them for tables of counts.
func TestReplayItems(t *testing.T) {
	w := newWorld(t)
	historytest.Fill(t, w.pool, date, 100, 0, 0) // 700 crawled, 600 indexed
	w.count("crawled", 690, date, time.Second, "true")
	w.count("indexed", 605, date, time.Second, "true")
	report := w.report()
	if got := deltas(report); got != "c-10 UNEXPECTED  i+5 UNEXPECTED  c+0 OK  r+0 OK  p+0 OK" {
		t.Error(got)
	}
	golden(t, "surplus", report)
	for range 2 {
		w.replay(report)
		if got := report.Plan[0].Events; got != 10 {
			t.Errorf("%d events are replayed", got)
		}
	}
	w.fold()
	w.replay(report) // an old report does no harm
	w.fold()
	if got := deltas(w.report()); got != "c+0 OK  i+5 UNEXPECTED  c+0 OK  r+0 OK  p+0 OK" {
		t.Error(got)
	}
	w.exec(`UPDATE job_executions SET items_crawled = items_crawled + 1 WHERE started_at < '2026-02-10 00:00:04Z'`)
	report = w.report()
	w.replay(report)
	w.fold()
	if got := deltas(w.report()); !strings.HasPrefix(got, "c+0 OK") {
		t.Error(got)
	}
}

// TestCountedOutage holds invariant 1 for tables of counts.
func TestCountedOutage(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO job_executions (job_id, status, started_at, completed_at, items_crawled, items_indexed) VALUES
		(gen_random_uuid(), '', '2026-02-10 10:00Z', '2026-02-10 10:30Z', 100, 0), (gen_random_uuid(), '', '2026-02-10 12:00Z', '2026-02-10 12:30Z', 50, 0)`)
	w.count("crawled", 60, date, time.Second, "true")
	o := Outage{
		Name: "broker", From: must(time.Parse(time.RFC3339, date+"T10:20:00Z")),
		Until: must(time.Parse(time.RFC3339, "2026-02-10T11:00:00Z")),
	}
	if got := deltas(w.report(o)); !strings.HasPrefix(got, "c-90 EXPECTED") {
		t.Error(got)
	}
	o.From = o.From.Add(20 * time.Minute)
	if got := deltas(w.report(o)); !strings.HasPrefix(got, "c-90 UNEXPECTED") {
		t.Error(got)
	}
}

// TestRetired holds that days whose events were summed up are counted, and
// refused where they cannot be.
func TestRetired(t *testing.T) {
	w := newWorld(t)
	historytest.Fill(t, w.pool, date, 0, 10, 0)
	for _, q := range []string{
		`INSERT INTO retired (month, upto, events) VALUES (202602, 1, 8)`,
		`INSERT INTO events_daily (period, stage, source_name, upto, events, backfilled) VALUES ('2026-02-10', ` +
			`'classified', 's', 1, 8, 1)`,
	} {
		if err := w.ch.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	report := w.report(redis)
	if got := deltas(report); got != "c+0 OK  i+0 OK  c-2 UNEXPECTED  r+0 OK  p+0 OK" {
		t.Error(got)
	}
	r := must(New(w.table, w.sources, nil))
	if err := r.Replay(t.Context(), report, w.publisher); !errors.Is(err, history.ErrRetired) {
		t.Error(err)
	}
	if _, err := r.Day(t.Context(), report.From, must(time.LoadLocation("Asia/Kolkata"))); !errors.Is(err,
		history.ErrRetired) {
		t.Error(err)
	}
	w.count("classified", 1, "2026-03-01", time.Second, "true")
	w.count("routed", 1, "2026-03-01", time.Second, "true")
	first := must(w.table.FirstLive(t.Context()))
	if len(first) != 2 || first["classified"].Format(time.RFC3339) != "2026-02-10T00:00:00Z" ||
		first["routed"].Format(time.RFC3339) != "2026-03-01T00:00:01Z" {
		t.Error(first)
	}
}

func TestOutages(t *testing.T) {
	got, err := ReadOutages(strings.NewReader("outages:\n  - name: Redis outage\n    from: 2026-02-10T14:20:00Z\n   " +
		" to: 2026-02-10T14:35:00Z\n    stages: [published]\n"))
	if err != nil || len(got) != 1 || got[0].Name != redis.Name || !got[0].Until.Equal(redis.Until) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := ReadOutages(strings.NewReader("")); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	for _, text := range []string{
		"outages: 1", "outage: []",
		"outages: [{from: 2026-02-10T14:20:00Z, to: 2026-02-10T14:35:00Z}]",
		"outages: [{name: x, to: 2026-02-10T14:35:00Z}]",
		"outages: [{name: x, from: 2026-02-10T14:35:00Z, to: 2026-02-10T14:35:00Z}]",
		"outages: [{name: x, from: yesterday}]",
	} {
		if got, err := ReadOutages(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", -5: "-5", 999: "999", 1000: "1,000", -1000: "-1,000",
		75480: "75,480", 123456789: "123,456,789", -123456: "-123,456",
	} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func FuzzOutages(f *testing.F) {
	f.Add("outages:\n  - {name: a, from: 2026-02-10T14:20:00Z, to: 2026-02-10T14:35:00Z}\n")
	f.Add("outages: [&a {name: a}, *a]")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadOutages(strings.NewReader(text))
		for _, o := range got {
			if err == nil && (o.Name == "" || !o.From.Before(o.Until)) {
				t.Errorf("%+v", o)
			}
		}
	})
}

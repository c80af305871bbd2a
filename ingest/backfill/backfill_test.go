package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/history"
	"github.com/millrace-io/millrace/ingest/history/historytest"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.Postgres

// The test binary is also the process that is killed while it backfills.
const (
	envNATS = "BACKFILL_TEST_NATS"
	envDSN  = "BACKFILL_TEST_DSN"
)

func TestMain(m *testing.M) {
	if os.Getenv(envNATS) != "" {
		runToBeKilled()
		return
	}
	os.Exit(engine.Main(m))
}

// runToBeKilled backfills all tables, and exits with 0 when it is done.
func runToBeKilled() {
	nc, err := nats.Connect(os.Getenv(envNATS))
	if err != nil {
		panic(err)
	}
	stages, _ := event.ParseStages(event.DefaultStages)
	b, err := New(context.Background(), Config{Stages: stages, Errors: os.Stderr}, nc)
	if err != nil {
		panic(err)
	}
	for _, table := range history.Tables() {
		src, err := history.Open(context.Background(), os.Getenv(envDSN), table)
		if err != nil {
			panic(err)
		}
		report, err := b.Run(context.Background(), src)
		if err != nil {
			panic(err)
		}
		fmt.Println(report)
	}
	os.Exit(0)
}

const longAgo = "2026-02-10T00:00:00Z"

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

// world is a database with tables, and a broker.
type world struct {
	t    *testing.T
	pool *pgxpool.Pool
	nats *natstest.Server
	nc   *nats.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, pool: engine.Pool(t), nats: natstest.Start(t, stream.Config{})}
	historytest.Create(t, w.pool)
	w.nc = w.nats.Connect()
	return w
}

func (w *world) dsn() string { return w.pool.Config().ConnString() }

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	historytest.Exec(w.t, w.pool, query, args...)
}

func (w *world) run(cfg Config) map[string]Report {
	w.t.Helper()
	reports, err := w.try(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return reports
}

func (w *world) try(ctx context.Context, cfg Config) (map[string]Report, error) {
	w.t.Helper()
	cfg.Stages, _ = event.ParseStages(event.DefaultStages)
	b, err := New(ctx, cfg, w.nc)
	if err != nil {
		return nil, err
	}
	reports := map[string]Report{}
	for _, table := range history.Tables() {
		src, err := history.Open(w.t.Context(), w.dsn(), table)
		if err != nil {
			w.t.Fatal(err)
		}
		defer src.Close()
		report, err := b.Run(ctx, src)
		reports[table.Name] = report
		if err != nil {
			return reports, err
		}
	}
	return reports, nil
}

// stored counts the events of the stream, and their identities by stage.
func (w *world) stored() (events int, identities map[string]int) {
	w.t.Helper()
	s, err := w.nats.JetStream().Stream(w.t.Context(), stream.Events)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := s.OrderedConsumer(w.t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	events = int(s.CachedInfo().State.Msgs)
	seen, identities := map[event.Identity]bool{}, map[string]int{}
	stages, _ := event.ParseStages(event.DefaultStages)
	for left := events; left > 0; {
		batch, err := c.Fetch(min(left, 1000))
		if err != nil {
			w.t.Fatal(err)
		}
		for m := range batch.Messages() {
			var r event.Record
			if err := event.Decode(m.Data(), &r); err != nil {
				w.t.Fatal(err)
			}
			if err := r.Validate(stages, time.Now(), true); err != nil ||
				m.Subject() != stream.EventSubject(string(r.Stage), r.URLHash) {
				w.t.Fatalf("%v: %s %s", err, m.Subject(), m.Data())
			}
			if id := r.Identity(); !seen[id] {
				seen[id] = true
				identities[string(r.Stage)]++
			}
			left--
		}
		if err := batch.Error(); err != nil {
			w.t.Fatal(err)
		}
	}
	return events, identities
}

func (w *world) mustHave(want map[string]int) {
	w.t.Helper()
	if _, got := w.stored(); !maps.Equal(got, want) {
		w.t.Errorf("%v are stored, want %v", got, want)
	}
}

// all is what Fill(…, 100, 2500, 1200) amounts to.
var all = map[string]int{"crawled": 700, "indexed": 600, "classified": 2500, "routed": 1200, "published": 1200}

func TestBackfill(t *testing.T) {
	w := newWorld(t)
	historytest.Fill(t, w.pool, longAgo, 100, 2500, 1200)
	w.exec(`INSERT INTO classification_history (content_url, classified_at) VALUES ('nothing', '2026-02-10'), ` +
		`('https://example.com/x', NULL)`)
	var errs, bar bytes.Buffer
	dry := w.run(Config{DryRun: true, Errors: &errs})
	if n, _ := w.stored(); n != 0 || dry["job_executions"].Events["crawled"] != 700 ||
		!strings.Contains(dry["job_executions"].String(), "dry run") {
		t.Errorf("a dry run stores %d events: %v", n, dry)
	}
	if !strings.HasPrefix(errs.String(), "row 2501 of 2026-02-10T00:00:00Z: article_url: must be an absolute") {
		t.Error(errs.String())
	}
	reports := w.run(Config{Progress: &bar})
	w.mustHave(all)
	r := reports["classification_history"]
	if r.Rows != 2501 || r.Events["classified"] != 2500 || r.Skipped != 1 || r.Untimed != 1 ||
		!strings.HasPrefix(r.String(),
			"classification_history: rows=2501 classified=2500 skipped=2 (1 without a time)") {
		t.Errorf("%+v\n%s", r, r)
	}
	if !strings.Contains(bar.String(), "publish_history") || !strings.Contains(bar.String(), "rows/s") {
		t.Errorf("the bar is %q", bar.String())
	}
	// A second run has only the last rows' time left, and new rows.
	historytest.Fill(t, w.pool, "2026-02-11T00:00:00Z", 0, 10, 0)
	again := w.run(Config{})["classification_history"]
	if again.Rows != 11 || again.Resumed != 2500 ||
		!strings.Contains(again.String(), "resumed at 2026-02-10T00:41:40Z after 2500 rows") {
		t.Errorf("%+v\n%s", again, again)
	}
	// From the beginning, everything is published again and is the same.
	w.run(Config{Restart: true})
	want := maps.Clone(all)
	want["classified"] += 10
	w.mustHave(want)
}

// TestKilled holds invariant 1.
func TestKilled(t *testing.T) {
	slowtest.Mark(t)
	w := newWorld(t)
	historytest.Fill(t, w.pool, longAgo, 50, 7000, 2000)
	for kills := 0; ; kills++ {
		before := w.count()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envNATS+"="+w.nats.URL(), envDSN+"="+w.dsn())
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		err := w.afterEvents(before+3000, ended)
		if err == nil { // so many have come: kill -9
			_ = cmd.Process.Kill()
			<-ended
			continue
		}
		if !errors.Is(err, errEnded) {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if kills < 2 {
			t.Errorf("only %d kills", kills)
		}
		break
	}
	w.mustHave(map[string]int{"crawled": 350, "indexed": 300, "classified": 7000, "routed": 2000, "published": 2000})
}

func (w *world) count() int {
	w.t.Helper()
	s, err := w.nats.JetStream().Stream(w.t.Context(), stream.Events)
	if err != nil {
		w.t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

var errEnded = errors.New("the process has ended")

// afterEvents returns nil when the stream has so many events, and errEnded
// when the process ends well before.
func (w *world) afterEvents(n int, ended <-chan error) error {
	s, err := w.nats.JetStream().Stream(w.t.Context(), stream.Events)
	if err != nil {
		return err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			return errEnded
		case <-tick.C:
			info, err := s.Info(w.t.Context())
			if err != nil {
				return err
			}
			if int(info.State.Msgs) >= n {
				return nil
			}
		}
	}
}

// TestDelay: batches begin at least the delay after one another, however many are
// under way at once.
func TestDelay(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO publish_history (published_at, article_url, channel_name)
		SELECT $1::timestamptz + n * interval '1 s', 'https://example.com/' || n, 'c'
		FROM generate_series(1, 25) AS n`, longAgo)
	begin := time.Now()
	w.run(Config{Batch: 10, Delay: 100 * time.Millisecond})
	if took := time.Since(begin); took < 400*time.Millisecond {
		t.Errorf("five batches took %s, with 100 ms between them", took)
	}
	w.mustHave(map[string]int{"routed": 25, "published": 25})
}

// TestOutage holds that a run waits for a broker that is away, and that one
// that is cancelled keeps what it has done.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	historytest.Fill(t, w.pool, longAgo, 0, 6000, 0)
	var wg sync.WaitGroup
	wg.Go(func() { w.run(Config{}) })
	if err := w.afterEvents(1000, nil); err != nil {
		t.Fatal(err)
	}
	w.nats.Stop()
	w.nats.Start()
	wg.Wait()
	w.mustHave(map[string]int{"classified": 6000})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.try(ctx, Config{Restart: true}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestCursorOutage holds that a broker which goes away while a cursor is saved or
// loaded is waited for.
func TestCursorOutage(t *testing.T) {
	w := newWorld(t)
	src, err := history.Open(t.Context(), w.dsn(), history.Tables()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	tried := make(chan struct{}, 100) // is told of each attempt that failed
	log := slog.New(slog.NewTextHandler(writerFunc(func() { tried <- struct{}{} }), nil))
	saved, err := openCursors(t.Context(), w.nats.JetStream(), log)
	if err != nil {
		t.Fatal(err)
	}
	want := cursor{At: at(longAgo), Rows: 7, Same: 2}
	for what, ask := range map[string]func() error{
		"save": func() error { return saved.save(t.Context(), src, history.Span{}, want) },
		"load": func() (err error) { _, err = saved.load(t.Context(), src, history.Span{}); return err },
	} {
		w.nats.Stop()
		for len(tried) > 0 {
			<-tried
		}
		ended := make(chan error, 1)
		go func() { ended <- ask() }()
		select {
		case <-tried:
		case err := <-ended:
			t.Fatalf("%s without a broker ended with %v", what, err)
		}
		w.nats.Start()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := saved.load(t.Context(), src, history.Span{}); err != nil || got != want {
		t.Errorf("%v was loaded, %v; want %v", got, err, want)
	}
}

// writerFunc is called for each write.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

// TestLive holds invariant 3: over live events nothing changes.
func TestLive(t *testing.T) {
	w := newWorld(t)
	historytest.Fill(t, w.pool, longAgo, 100, 500, 300)
	w.exec(`UPDATE job_executions SET completed_at = NULL WHERE started_at = '2026-02-10 00:00:10Z'`)
	w.exec(`UPDATE job_executions SET completed_at = started_at + interval '5 s' WHERE started_at = '2026-02-10 ` +
		`00:00:49Z'`)
	live, err := client.New(w.nc, client.Config{Service: "classifier"})
	if err != nil {
		t.Fatal(err)
	}
	var events []event.Event
	for n := 101; n <= 500; n++ {
		events = append(events, event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/article-%d", n), SourceName: "s", Stage: "classified",
			// for its age
			OccurredAt: at(longAgo).Add(time.Duration(n) * time.Second), Metadata: map[string]any{"backfilled": true},
		})
	}
	if _, err := live.EmitBatch(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	cut := at(longAgo).Add(51 * time.Second)
	reports := w.run(
		Config{Until: map[string]time.Time{
			"crawled": cut, "indexed": cut.Add(10 * time.Second),
			"published": at(longAgo),
		}, Now: at("2026-03-01T00:00:00Z")},
	)
	// Of the 60 executions before 00:01:01, 12 were under way at 00:00:51: the
	// one without an end, the one of 00:00:49, and those from 00:00:51 on.
	if r := reports["job_executions"]; r.Rows != 60 || r.Unended != 12 ||
		!strings.Contains(r.String(), "skipped=12 (12 under way)") {
		t.Errorf("%+v", r)
	}
	w.mustHave(map[string]int{"crawled": 350 - 5 - 9, "indexed": 300 - 4 - 8, "classified": 500, "routed": 300})
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{{Batch: 1001}, {Batch: -1}, {InFlight: -1}, {}} {
		if _, err := New(t.Context(), cfg, nil); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	w := newWorld(t)
	stages, _ := event.ParseStages("crawled,classified")
	b, err := New(t.Context(), Config{Stages: stages}, w.nc)
	if err != nil {
		t.Fatal(err)
	}
	src, err := history.Open(t.Context(), w.dsn(), history.Tables()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if _, err := b.Run(t.Context(), src); err == nil || !strings.Contains(err.Error(), "no stage indexed") {
		t.Error(err)
	}
}

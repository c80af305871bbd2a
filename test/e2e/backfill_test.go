package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/ingest/history/historytest"
)

// rowsOf is how many rows TestBackfillKilled works on: MILLRACE_TEST_ROWS, or
// a few.
func rowsOf(t testing.TB) int {
	n, err := strconv.Atoi(os.Getenv("MILLRACE_TEST_ROWS"))
	if err != nil {
		n = 10_000
	}
	t.Logf("MILLRACE_TEST_ROWS=%d", n)
	return n
}

// postgresDSN is the URL of the server's own Postgres.
func (s *server) postgresDSN() string {
	s.t.Helper()
	password, err := os.ReadFile(filepath.Join(s.data, "postgres", "password"))
	if err != nil {
		s.t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("millrace", strings.TrimSpace(string(password))), Host: s.ports.Postgres, Path: "/millrace"}
	return u.String()
}

// TestBackfillKilled holds the promise that a backfill that is killed again and
// again ends with every row counted once, and that another changes nothing.
func TestBackfillKilled(t *testing.T) {
	t.Parallel()
	rows, n := rowsOf(t), seed(t)
	random := rand.New(rand.NewPCG(n, 5))
	s := up(t)
	pool, err := pgxpool.New(t.Context(), s.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	historytest.Create(t, pool)
	// A second apart, a million rows are more than eleven days.
	historytest.Fill(t, pool, "2026-09-01T00:00:00Z", rows/100, rows*8/10, rows*19/100)
	env := []string{
		"MILLRACE_NATS_URL=" + s.natsURL(), "MILLRACE_CLICKHOUSE_DSN=clickhouse://analyst@" + s.ports.ClickHouse + "/millrace",
		"MILLRACE_CRAWLER_DSN=" + s.postgresDSN(), "MILLRACE_CLASSIFIER_DSN=" + s.postgresDSN(), "MILLRACE_PUBLISHER_DSN=" + s.postgresDSN(),
	}
	crawled := 0
	if err := pool.QueryRow(t.Context(), "SELECT coalesce(sum(items_crawled), 0) FROM job_executions").Scan(&crawled); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"crawled": crawled, "indexed": crawled - rows/100, "classified": rows * 8 / 10, "routed": rows * 19 / 100, "published": rows * 19 / 100}
	total := 0
	for _, n := range want {
		total += n
	}
	for kills := range 4 {
		p := launch(t, env, nil, "backfill")
		after := s.streamed() + total/10 + random.IntN(total/10)
		poll(t, 10*waitLimit, "the backfill to publish", func() bool { return s.streamed() >= after || !p.running() })
		if !p.running() {
			t.Errorf("the backfill ended before it was killed %d times:\n%s%s", kills+1, p.out, p.log)
		}
		p.kill()
	}
	mustBackfill(t, env)
	s.caughtUp()
	window := between(at("2026-09-01T00:00:00Z"), at("2026-11-01T00:00:00Z"))
	check := func() {
		t.Helper()
		for _, got := range get[funnel](s, "/funnel", window+"&uniques=exact").Stages {
			if got.Events != want[got.Name] || got.Uniques != want[got.Name] {
				t.Errorf("%+v, want %d events of as many articles", got, want[got.Name])
			}
		}
		p := launch(t, env, nil, "reconcile", "--date=2026-09-01", "--to=2026-09-13")
		if status := p.wait(t, waitLimit); status != 0 || strings.Count(p.out.String(), "delta=0 ") != 5*13 {
			t.Errorf("reconcile: status %d\n%s%s", status, p.out, p.log)
		}
		if t.Failed() || !strings.Contains(p.out.String(), "Reconciliation Report (2026-09-13)") {
			t.Log(p.out)
		}
	}
	check()
	mustBackfill(t, append(env, "MILLRACE_LOG_LEVEL=warn"), "--restart")
	s.caughtUp()
	check()

	// A row that no event was emitted for is a gap, until it is replayed.
	historytest.Exec(t, pool, `INSERT INTO classification_history (content_url, classified_at) VALUES ('https://example.com/missed', '2026-09-01 12:00')`)
	reconcile := func(args ...string) (status int, out string) {
		p := launch(t, env, nil, append([]string{"reconcile", "classifier", "--date=2026-09-01"}, args...)...)
		return p.wait(t, waitLimit), p.out.String()
	}
	if status, out := reconcile(); status != 3 || !strings.Contains(out, "delta=-1     UNEXPECTED") || !strings.Contains(out, "→ EmitBatch to pipeline with stage=classified") {
		t.Errorf("status %d\n%s", status, out)
	}
	if status, out := reconcile("--replay", "--json"); status != 3 || !strings.Contains(out, `"events": 1`) {
		t.Errorf("status %d\n%s", status, out)
	}
	s.caughtUp()
	if status, out := reconcile(); status != 0 || !strings.Contains(out, "delta=0      OK") {
		t.Errorf("status %d\n%s", status, out)
	}
	if status, out := reconcile("--to=2026-08-01"); status != 2 {
		t.Errorf("a span that ends before it begins: status %d\n%s", status, out)
	}
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// streamed is the last sequence of the stream.
func (s *server) streamed() int { return int(get[funnel](s, "/funnel", "period=24h").Stream.LastSeq) }

func mustBackfill(t *testing.T, env []string, args ...string) {
	t.Helper()
	p := launch(t, env, nil, append([]string{"backfill"}, args...)...)
	if status := p.wait(t, 10*waitLimit); status != 0 {
		t.Fatalf("backfill: status %d\n%s%s", status, p.out, p.log)
	}
	t.Log(fmt.Sprint(p.out))
}

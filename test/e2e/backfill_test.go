package e2e

import (
	"context"
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
	"github.com/millrace-io/millrace/internal/slowtest"
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
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("millrace", strings.TrimSpace(string(password))),
		Host: s.ports.Postgres, Path: "/millrace",
	}
	return u.String()
}

// past is a server whose Postgres has the history of services in it.
type past struct {
	*server
	pool *pgxpool.Pool
	env  []string
	want map[string]int // events by stage, each of an article of its own
}

func newPast(t *testing.T, rows int) *past {
	t.Helper()
	s := up(t)
	pool, err := pgxpool.New(t.Context(), s.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	historytest.Create(t, pool)
	executions, classifications, publications := rows/100, rows*8/10, rows*19/100
	historytest.Fill(t, pool, "2026-09-01T00:00:00Z", executions, classifications, publications)
	crawled := 0
	if err := pool.QueryRow(t.Context(),
		"SELECT coalesce(sum(items_crawled), 0) FROM job_executions").Scan(&crawled); err != nil {
		t.Fatal(err)
	}
	return &past{
		server: s, pool: pool,
		env: []string{
			"MILLRACE_NATS_URL=" + s.natsURL(), "MILLRACE_DATA=" + s.data,
			"MILLRACE_CLICKHOUSE_DSN=clickhouse://analyst@" + s.ports.ClickHouse + "/millrace",
			"MILLRACE_CRAWLER_DSN=" + s.postgresDSN(), "MILLRACE_CLASSIFIER_DSN=" + s.postgresDSN(),
			"MILLRACE_PUBLISHER_DSN=" + s.postgresDSN(),
		},
		want: map[string]int{
			"crawled": crawled, "indexed": crawled - executions, "classified": classifications,
			"routed": publications, "published": publications,
		},
	}
}

// TestBackfillKilled holds the promise that a backfill that is killed again and
// again ends with every row counted once, and that another changes nothing.
func TestBackfillKilled(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	rows, n := rowsOf(t), seed(t)
	random := rand.New(rand.NewPCG(n, 5))
	p := newPast(t, rows)
	total := 0
	for _, n := range p.want {
		total += n
	}
	unlock := p.lock("publish_history")
	defer unlock()
	before := total - p.want["routed"] - p.want["published"] // what comes before that table
	for kills := range 4 {
		run := launch(t, p.env, nil, "backfill")
		after := min(p.streamed()+total/10+random.IntN(total/10), before)
		poll(t, 10*waitLimit, "the backfill to publish", func() bool { return p.streamed() >= after || !run.running() })
		if !run.running() {
			t.Errorf("the backfill ended before it was killed %d times:\n%s%s", kills+1, run.out, run.log)
		}
		run.kill()
	}
	unlock()
	p.backfill()
	p.mustAgree()
	p.backfill("--restart")
	p.mustAgree()
}

// lock keeps others from a table, so that no backfill ends, however fast it is.
// It may be unlocked more than once.
func (p *past) lock(table string) (unlock func()) {
	p.t.Helper()
	tx, err := p.pool.Begin(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	unlock = func() { _ = tx.Rollback(context.Background()) } // an error: it is unlocked
	if _, err := tx.Exec(p.t.Context(), "LOCK TABLE "+table); err != nil {
		unlock()
		p.t.Fatal(err)
	}
	return unlock
}

// TestReplay holds the promise that what is missing is found, and replayed.
func TestReplay(t *testing.T) {
	t.Parallel()
	p := newPast(t, 1000)
	p.backfill()
	p.mustAgree()
	historytest.Exec(t, p.pool, `INSERT INTO classification_history (content_url, classified_at) VALUES `+
		`('https://example.com/missed', '2026-09-01 12:00')`)
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"", 3, "delta=-1     UNEXPECTED"},
		{"--replay --json", 3, `"events": 1`},
		{"", 0, "delta=0      OK"},
		{"--to=2026-08-01", 2, ""},
		{"--tz=Nowhere", 2, ""},
	} {
		p.caughtUp()
		run := launch(t, p.env, nil, append([]string{"reconcile", "classifier", "--date=2026-09-01"},
			strings.Fields(c.args)...)...)
		if status := run.wait(t, waitLimit); status != c.status || !strings.Contains(run.out.String(), c.want) {
			t.Errorf("reconcile %s: status %d\n%s%s", c.args, status, run.out, run.log)
		}
	}
}

// backfill runs a backfill to its end.
func (p *past) backfill(args ...string) {
	p.t.Helper()
	run := launch(p.t, p.env, nil, append([]string{"backfill"}, args...)...)
	if status := run.wait(p.t, 20*waitLimit); status != 0 {
		p.t.Fatalf("backfill: status %d\n%s%s", status, run.out, run.log)
	}
	p.t.Logf("backfill:\n%s", run.out)
}

// mustAgree holds what is counted against the rows, and has reconcile do so.
func (p *past) mustAgree() {
	p.t.Helper()
	p.caughtUp()
	for _, got := range get[funnel](p.server, "/funnel",
		between(at("2026-09-01T00:00:00Z"), at("2026-11-01T00:00:00Z"))+"&uniques=exact").Stages {
		if got.Events != p.want[got.Name] || got.Uniques != p.want[got.Name] {
			p.t.Errorf("%+v, want %d events of as many articles", got, p.want[got.Name])
		}
	}
	run := launch(p.t, p.env, nil, "reconcile", "--date=2026-09-01", "--to=2026-09-13")
	if status := run.wait(p.t, waitLimit); status != 0 || strings.Count(run.out.String(), "delta=0      OK") != 5*13 {
		p.t.Errorf("reconcile: status %d\n%s%s", status, run.out, run.log)
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

package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/sampler/samplertest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

var today = time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)

// world is a database, a bucket, and what has been written to them.
type world struct {
	t   *testing.T
	js  jetstream.JetStream
	db  driver.Conn
	reg *prometheus.Registry
	seq uint64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	nc := embeddedtest.Connect(t, embeddedtest.NATS(t))
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, stream.Ensure(t.Context(), js, stream.Config{}))
	db, err := clickhouse.Open(engine.Database(t))
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return &world{t: t, js: js, db: db}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keeper returns a keeper that has just been started.
func (w *world) keeper(cfg Config) *Keeper {
	w.t.Helper()
	cfg.Now = func() time.Time { return today }
	cfg.Topology = engine.Topology()
	w.reg = prometheus.NewRegistry()
	k, err := New(cfg, w.db, w.js, w.reg, embeddedtest.Log(w.t))
	must(w.t, err)
	k.grace = 0
	return k
}

// write adds n events, spread over a month, and says that they are durable.
func (w *world) write(m month, n int) {
	w.t.Helper()
	must(w.t, w.db.Exec(w.t.Context(), fmt.Sprintf(`
		INSERT INTO events (seq, occurred_at, received_at, stage, source_name, service_name, article_hash,
		idempotency_key, identity, topics, model_version, channel,
			is_reclassification, backfilled, quality_score)
		SELECT %d + number + 1 AS s, toDateTime64('%s', 9, 'UTC') + toIntervalSecond(cityHash64(s) %% 2419200) AS at,
		at, ['crawled', 'classified'][s %% 2 + 1],
			'source ' || toString(s %% 3), 'service', SHA256(toString(cityHash64(s) %% 3000)), 'key ' || toString(s),
			substring(SHA256(toString(s)), 1, 16), arraySlice(['crime', 'news', 'crime'], 1, s %% 4),
			if(s %% 2 = 1, 'v' || toString(s %% 5), ''), if(s %% 7 = 0, 'articles:crime', ''), s %% 11 = 0, s %% 13 = 0, if(s %% 2 = 1, s %% 100, NULL)
		FROM numbers(%d)`, w.seq, m.start().Format(time.DateTime), n)))
	w.seq += uint64(n)
	value, err := json.Marshal(funnel.Checkpoint{From: w.seq, To: w.seq + 1000}) // a batch under way is not durable
	must(w.t, err)
	kv, err := w.js.KeyValue(w.t.Context(), stream.Checkpoints)
	must(w.t, err)
	_, err = assignment.AgreeLayout(w.t.Context(), kv, 2)
	must(w.t, err)
	for _, group := range []string{"funnel.0", "funnel.1"} {
		_, err = kv.Put(w.t.Context(), group, value)
		must(w.t, err)
	}
}

// lines returns the rows of a query as text.
func (w *world) lines(query string) string {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), query)
	must(w.t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var line string
		must(w.t, rows.Scan(&line))
		out = append(out, line)
	}
	must(w.t, rows.Err())
	return strings.Join(out, "\n")
}

// totals is everything that the views say.
func (w *world) totals() string {
	return w.lines("SELECT toString(tuple(*)) AS l FROM daily_totals ORDER BY l") + "\n" +
		w.lines("SELECT toString(tuple(*)) AS l FROM monthly_totals ORDER BY l")
}

func (w *world) number(query string) string { return w.lines("SELECT toString(" + query + ")") }

var errKilled = errors.New("killed")

// TestTotalsSurviveRetirement holds invariants 2 to 6: whatever step a keeper
// dies after, and whatever arrives late, the totals are those of a recount.
func TestTotalsSurviveRetirement(t *testing.T) {
	slowtest.Mark(t)
	w := newWorld(t)
	w.write(202507, 4000)
	w.write(202508, 4000) // the oldest month that is kept
	w.write(202601, 2000)
	var k *Keeper
	want := w.totals()
	for round, step := range []string{
		"plan", "daily", "monthly", "identities", "verify", "commit",
		"done", "remove", "",
	} {
		k = w.keeper(Config{Months: 6})
		k.stopAfter = func(s string) error {
			if s == step {
				return errKilled
			}
			return nil
		}
		err := k.Round(t.Context())
		if (step == "" && err != nil) || (step != "" && !errors.Is(err, errKilled)) {
			t.Fatalf("round %d, killed after %q: %v", round, step, err)
		}
		if got := w.totals(); got != want {
			t.Fatalf("killed after %q the totals are\n%s\nwant\n%s", step, got, want)
		}
		// Late events, of a retired month and of one that is older than all.
		w.write(202507, 300)
		w.write(202411, 100)
		want = w.totals()
	}
	must(t, w.keeper(Config{Months: 6}).Round(t.Context()))
	if got := w.totals(); got != want {
		t.Fatalf("the totals are\n%s\nwant\n%s", got, want)
	}
	if left := w.number("(SELECT count() FROM events)"); left != "6000" {
		t.Errorf("%s events are left", left)
	}
	if all := w.number("(SELECT sum(events) FROM daily_totals WHERE dimension = '')"); all != fmt.Sprint(w.seq) {
		t.Errorf("%s events are counted of %d", all, w.seq)
	}
	known := "(SELECT (uniqExact(i.seq), uniqExact(i.identity)) FROM (SELECT seq, identity FROM events UNION ALL " +
		"SELECT seq, identity FROM retired_identities) AS i)"
	if got := w.number(known); got != fmt.Sprintf("(%d,%d)", w.seq, w.seq) {
		t.Errorf("known are the sequences and identities of %s events of %d", got, w.seq)
	}
	if direct := w.number(
		"(SELECT sum(events) FROM monthly_totals WHERE dimension = '' AND period < '2025-08-01')",
	); direct != fmt.Sprint(w.seq-6000) {
		t.Errorf("%s events are retired", direct)
	}
}

// TestLateZombie holds invariants 3 and 4: a process that goes on after its
// plan was completed and its events were removed changes nothing.
func TestLateZombie(t *testing.T) {
	slowtest.Mark(t)
	w := newWorld(t)
	w.write(202505, 3000)
	want := w.totals()
	zombie, other := w.keeper(Config{Months: 6}), w.keeper(Config{Months: 6})
	for _, step := range []string{"plan", "daily", "monthly", "identities", "verify", "commit"} {
		zombie.stopAfter = func(s string) error {
			if s == step {
				return other.Round(t.Context())
			}
			return nil
		}
		if err := zombie.Round(t.Context()); err != nil && !errors.Is(err, errUnequal) &&
			!errors.Is(err, errOvertaken) {
			t.Fatalf("%s: %v", step, err)
		}
		if got := w.totals(); got != want {
			t.Fatalf("overtaken after %q the totals are\n%s\nwant\n%s", step, got, want)
		}
		w.write(202505, 500)
		want = w.totals()
	}
}

// TestUndurableStays holds invariant 1.
func TestUndurableStays(t *testing.T) {
	w := newWorld(t)
	w.write(202505, 1000)
	durable := w.seq
	// of the batch under way
	must(t, w.db.Exec(t.Context(), "INSERT INTO events (seq, occurred_at) VALUES (1001, '2025-05-03 00:00:00')"))
	k := w.keeper(Config{Months: 6})
	k.store.atOnce = 0 // by day
	must(t, k.Round(t.Context()))
	if got := w.number("(SELECT groupArray(seq) FROM events)"); got != "[1001]" {
		t.Errorf("left are %s", got)
	}
	if got := w.number("(SELECT sum(events) FROM events_daily WHERE dimension = '')"); got != "1000" {
		t.Errorf("%s events are summed up", got)
	}
	if got := w.number("(SELECT max(upto) FROM retired)"); got != fmt.Sprint(durable) {
		t.Errorf("retired up to %s", got)
	}
}

// TestClockAhead holds invariant 7: by a clock that is years ahead nothing is
// retired, nor are summaries dropped.
func TestClockAhead(t *testing.T) {
	w := newWorld(t)
	recent := monthOf(time.Now()).add(-3)
	w.write(recent, 100)
	must(t, w.keeper(Config{Months: 6}).Round(t.Context()))
	k := w.keeper(Config{Months: 6, DailyMonths: 12})
	k.cfg.Now = func() time.Time { return time.Now().AddDate(2, 0, 0) }
	must(t, k.Round(t.Context()))
	if got := w.number("(SELECT count() FROM events)"); got != "100" {
		t.Errorf("%s events are left of 100", got)
	}
	if got := w.number("(SELECT count() FROM retired)"); got != "0" {
		t.Errorf("%s retirements", got)
	}
}

func TestDailySummariesAreDropped(t *testing.T) {
	w := newWorld(t)
	w.write(202401, 500)
	w.write(202506, 500)
	want := w.lines("SELECT toString(tuple(*)) AS l FROM monthly_totals ORDER BY l")
	must(t, w.keeper(Config{Months: 6, DailyMonths: 12}).Round(t.Context()))
	if got := w.lines("SELECT toString(tuple(*)) AS l FROM monthly_totals ORDER BY l"); got != want {
		t.Errorf("monthly totals are\n%s\nwant\n%s", got, want)
	}
	if got := w.number("(SELECT sum(events) FROM daily_totals WHERE dimension = '')"); got != "500" {
		t.Errorf("%s events by day", got)
	}
}

func TestKeepsEverythingUnlessTold(t *testing.T) {
	w := newWorld(t)
	w.write(200001, 10)
	k := w.keeper(Config{})
	must(t, k.Round(t.Context()))
	got := samplertest.Read(t, k.Rows())
	if rows := got[`pipeline_events_row_count{partition="200001"}`]; rows != "10" {
		t.Errorf("rows of the month: %q of %v", rows, got)
	}
}

// TestRunEnds holds that Run returns when its context ends, retiring meanwhile.
func TestRunEnds(t *testing.T) {
	w := newWorld(t)
	w.write(202505, 10)
	k := w.keeper(Config{Months: 6})
	ctx, cancel := context.WithCancel(t.Context())
	k.stopAfter = func(step string) error {
		if step == "remove" {
			cancel()
		}
		return nil
	}
	must(t, k.Run(ctx))
	if got := w.number("(SELECT count() FROM events)"); got != "0" {
		t.Errorf("%s events are left", got)
	}
}

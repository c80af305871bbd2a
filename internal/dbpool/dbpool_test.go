package dbpool_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
)

var (
	engine   embeddedtest.ClickHouse
	postgres embeddedtest.Postgres
)

func TestMain(m *testing.M) { os.Exit(embeddedtest.Main(m, &postgres, &engine)) }

// gauges reads the states of a pool.
func gauges(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if f.GetName() == "pipeline_db_connections" && l.GetName() == "state" {
					out[l.GetValue()] = m.Gauge.GetValue()
				}
			}
		}
	}
	return out
}

// await waits until the gauges of a pool show what they should.
func await(t *testing.T, reg *prometheus.Registry, active, idle, waiting float64) {
	t.Helper()
	for start := time.Now(); ; {
		got := gauges(t, reg)
		if got["active"] == active && got["idle"] == idle && got["waiting"] == waiting {
			return
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%v, want %g active, %g idle, %g waiting", got, active, idle, waiting)
		}
	}
}

// TestPostgres does the same to a pool of Postgres.
func TestPostgres(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(postgres.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	reg := prometheus.NewRegistry()
	pool, err := dbpool.Postgres(t.Context(), cfg, reg, "test", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	await(t, reg, 1, 0, 0)
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- pool.Ping(t.Context()) }()
	}
	await(t, reg, 1, 0, 2)
	conn.Release()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	await(t, reg, 0, 1, 0)
}

// TestWaitingIsSeen holds a pool's only connection and lets calls wait for it.
func TestWaitingIsSeen(t *testing.T) {
	opts := engine.Database(t)
	opts.MaxOpenConns, opts.MaxIdleConns, opts.DialTimeout = 1, 1, time.Minute
	reg := prometheus.NewRegistry()
	conn, _, err := dbpool.ClickHouse(opts, reg, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := func(active, idle, waiting float64) { t.Helper(); await(t, reg, active, idle, waiting) }
	want(0, 0, 0)
	endless, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows, err := conn.Query(endless, "SELECT number FROM system.numbers")
	if err != nil {
		t.Fatal(err)
	}
	want(1, 0, 0)
	ended := make(chan error, 4)
	go func() { ended <- conn.Ping(t.Context()) }()
	go func() {
		var one uint8
		ended <- conn.QueryRow(t.Context(), "SELECT 1").Scan(&one)
	}()
	go func() { ended <- conn.Exec(t.Context(), "SELECT 1") }()
	go func() {
		rows, err := conn.Query(t.Context(), "SELECT 1")
		if err == nil {
			for rows.Next() { // to its end: that is enough
			}
			err = rows.Err()
		}
		ended <- err
	}()
	want(1, 0, 4)
	cancel()
	_ = rows.Close() // an error: it has been cancelled
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := gauges(t, reg); got["active"] != 0 || got["waiting"] != 0 {
		t.Errorf("at rest: %v", got)
	}
}

// TestClampedTimes: a row that an older release stored, or somebody else, with a time that
// JSON cannot say, is read all the same.
func TestClampedTimes(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(postgres.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	pool, err := dbpool.Postgres(t.Context(), cfg, reg, "test", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const last = "9999-12-31T23:59:59.999999Z"
	for text, want := range map[string]string{
		"2026-02-10T14:30:00.123456Z": "2026-02-10T14:30:00.123456Z",
		"10000-01-01T00:00:59Z":       last, "9999-12-31T23:59:59-15:59": last, "infinity": last,
		"-infinity": "0001-01-01T00:00:00Z", "4000-01-01T00:00:00Z BC": "0001-01-01T00:00:00Z",
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			var plain time.Time
			var pointer, none *time.Time
			var list []time.Time
			const query = "SELECT $1::timestamptz, $1::timestamptz, NULL::timestamptz, ARRAY[$1::timestamptz]"
			if err := pool.QueryRow(t.Context(), query, mode, text).Scan(&plain, &pointer, &none, &list); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if none != nil || len(list) != 1 {
				t.Fatalf("%s: %v %v", text, none, list)
			}
			for _, got := range []time.Time{plain, *pointer, list[0]} {
				if got.UTC().Format(time.RFC3339Nano) != want {
					t.Errorf("%s: %s, want %s", text, got, want)
				}
			}
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "millrace_times_clamped_total" && f.Metric[0].Counter.GetValue() == 5*2*3 {
			return
		}
	}
	t.Errorf("clamped times are not counted: %v", families)
}

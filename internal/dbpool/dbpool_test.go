package dbpool_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
)

var (
	engine   embeddedtest.ClickHouse
	postgres embeddedtest.Postgres
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	stop, err := postgres.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start postgres:", err)
		return 1
	}
	code := engine.Main(m)
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop postgres:", err)
		return 1
	}
	return code
}

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
	pool, err := dbpool.Postgres(t.Context(), cfg, reg, "test")
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
	pool, err := clickhouse.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	reg := prometheus.NewRegistry()
	conn, err := dbpool.ClickHouse(pool, reg, "test")
	if err != nil {
		t.Fatal(err)
	}
	want := func(active, idle, waiting float64) { t.Helper(); await(t, reg, active, idle, waiting) }
	want(0, 0, 0)
	endless, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows, err := conn.Query(endless, "SELECT number FROM system.numbers")
	if err != nil {
		t.Fatal(err)
	}
	want(1, 0, 0)
	ended := make(chan error, 3)
	go func() { ended <- conn.Ping(t.Context()) }()
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
	want(1, 0, 3)
	cancel()
	_ = rows.Close() // an error: it has been cancelled
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := gauges(t, reg); got["active"] != 0 || got["waiting"] != 0 {
		t.Errorf("at rest: %v", got)
	}
}

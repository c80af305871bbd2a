package dbpool_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// TestCut: what waits for a server that accepts connections and says nothing ends when the
// connections are cut, and so does what comes afterwards. Until then the pool works.
func TestCut(t *testing.T) {
	opts, cut := dbpool.Cuttable(engine.Database(t))
	pool, err := clickhouse.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 2 { // the second time by a connection that was kept
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hung, cutHung := dbpool.Cuttable(&clickhouse.Options{
		Addr: []string{silent.Addr().String()}, DialTimeout: time.Hour,
	})
	waiting, err := clickhouse.Open(hung)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	ended := make(chan error, 1)
	go func() { ended <- waiting.Ping(t.Context()) }()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the handshake has begun
		t.Fatal(err)
	}
	cutHung()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a server that says nothing answers")
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits for the handshake")
	}
	cut()
	if err := pool.Ping(t.Context()); err == nil {
		t.Error("connections are made after they were cut")
	}
}

// TestCutPostgres does the same to a pool of Postgres.
func TestCutPostgres(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(postgres.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	cut := dbpool.CuttablePostgres(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), "SELECT pg_sleep(600)")
		ended <- err
	}()
	for pool.Stat().AcquiredConns() == 0 {
		time.Sleep(time.Millisecond)
	}
	cut()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a statement that was cut succeeds")
		}
	case <-time.After(time.Minute):
		t.Fatal("the statement still runs")
	}
	if err := pool.Ping(t.Context()); err == nil {
		t.Error("connections are made after they were cut")
	}
}

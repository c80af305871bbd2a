package clickhouse_test

import (
	"context"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// transports are the ways a stock clickhouse-go talks natively.
var transports = map[string]ch.CompressionMethod{
	"plain": ch.CompressionNone, "lz4": ch.CompressionLZ4,
	"zstd": ch.CompressionZSTD,
}

func options(method ch.CompressionMethod) *ch.Options {
	return &ch.Options{
		Addr:        []string{server.Addr().String()},
		Auth:        ch.Auth{Database: "millrace", Username: "default", Password: password},
		Compression: &ch.Compression{Method: method},
	}
}

func open(t testing.TB, opt *ch.Options) driver.Conn {
	t.Helper()
	conn, err := ch.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// client is a connection without compression.
func client(t testing.TB) driver.Conn { return open(t, options(ch.CompressionNone)) }

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func exec(t testing.TB, conn driver.Conn, sql string) {
	t.Helper()
	if err := conn.Exec(testContext(t), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// count is the single number a query returns.
func count(t testing.TB, conn driver.Conn, sql string) (n uint64) {
	t.Helper()
	if err := conn.QueryRow(testContext(t), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// eachTransport runs a test on a connection of every kind.
func eachTransport(t *testing.T, test func(t *testing.T, conn driver.Conn)) {
	for name, method := range transports {
		t.Run(name, func(t *testing.T) { test(t, open(t, options(method))) })
	}
}

// TestDropSync: in a data folder that is new, DROP TABLE … SYNC returns when the
// table's data is gone.
func TestDropSync(t *testing.T) {
	conn := client(t)
	for _, statement := range []string{
		"CREATE TABLE gone (n UInt8) ENGINE = MergeTree ORDER BY n",
		"INSERT INTO gone SELECT number FROM numbers(100)",
		"DROP TABLE gone SYNC",
	} {
		if err := conn.Exec(testContext(t), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	var left uint64
	if err := conn.QueryRow(testContext(t), "SELECT count() FROM system.dropped_tables WHERE table = 'gone'").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d dropped tables are left, and the error is %v", left, err)
	}
}

package clickhouse_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// overHTTP opens a clickhouse-go that sends and gets Native blocks over HTTP.
func overHTTP(t testing.TB, method ch.CompressionMethod, set ch.Settings) driver.Conn {
	opt := options(method)
	opt.Protocol, opt.Addr, opt.Settings = ch.HTTP, []string{server.HTTPAddr().String()}, set
	return open(t, opt)
}

// httpTransports are the ways a stock clickhouse-go talks over HTTP.
var httpTransports = map[string]ch.CompressionMethod{
	"plain": ch.CompressionNone, "lz4": ch.CompressionLZ4, "zstd": ch.CompressionZSTD,
	"gzip": ch.CompressionGZIP, "deflate": ch.CompressionDeflate, "br": ch.CompressionBrotli,
}

func TestNativeOverHTTP(t *testing.T) {
	for name, method := range httpTransports {
		t.Run(name, func(t *testing.T) {
			conn := overHTTP(t, method, ch.Settings{"enable_http_compression": 1})
			exec(t, conn, "CREATE OR REPLACE TABLE posted_native (n UInt64, s LowCardinality(Nullable(String)), at "+
				"DateTime64(3, 'UTC'), a Array(String), "+
				"m Map(String, UInt8), t Tuple(x UInt8, y String)) ENGINE = MergeTree ORDER BY n")
			batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO posted_native")
			if err != nil {
				t.Fatal(err)
			}
			const rows = 70_000
			for i := range rows {
				s := fmt.Sprint("s", i%100)
				if err := batch.Append(uint64(i), &s, time.UnixMilli(int64(i)), []string{s}, map[string]uint8{s: 1},
					[]any{uint8(1), s}); err != nil {
					t.Fatal(err)
				}
			}
			if err := batch.Send(); err != nil {
				t.Fatal(err)
			}
			got, err := conn.Query(testContext(t), "SELECT n, s, at, a FROM posted_native ORDER BY n")
			if err != nil {
				t.Fatal(err)
			}
			var n uint64
			for ; got.Next(); n++ {
				var (
					m  uint64
					s  *string
					at time.Time
					a  []string
				)
				if err := got.Scan(&m, &s, &at, &a); err != nil || m != n || *s != fmt.Sprint("s", n%100) ||
					at.UnixMilli() != int64(n) || a[0] != *s {
					t.Fatalf("row %d: %d, %s, %s, %s, %v", n, m, *s, at, a, err)
				}
			}
			if err := errors.Join(got.Err(), got.Close()); err != nil || n != rows {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
}

// TestNativeOverHTTPExtras: parameters, external tables, results without rows, and
// exceptions before and behind the first rows.
func TestNativeOverHTTPExtras(t *testing.T) {
	for name, method := range map[string]ch.CompressionMethod{
		"plain": ch.CompressionNone, "lz4": ch.CompressionLZ4,
		"zstd": ch.CompressionZSTD,
	} {
		t.Run(name, func(t *testing.T) {
			conn := overHTTP(t, method, nil)
			var n uint64
			if err := conn.QueryRow(testContext(t), "SELECT {n:UInt64} + 1", ch.Named("n", 41)).Scan(&n); err != nil ||
				n != 42 {
				t.Errorf("a parameter: %d, %v", n, err)
			}
			table, err := ext.NewTable("ext", ext.Column("a", "UInt64"), ext.Column("s", "String"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				if err := table.Append(uint64(i), fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			ctx := ch.Context(testContext(t), ch.WithExternalTable(table))
			if err := conn.QueryRow(ctx, "SELECT sum(a) FROM ext WHERE s != '7'").Scan(&n); err != nil || n != 38 {
				t.Errorf("an external table: %d, %v", n, err)
			}
			var at time.Time
			if err := conn.QueryRow(testContext(t), "SELECT toDateTime(0, 'Asia/Tokyo')").Scan(&at); err != nil ||
				at.Location().String() != "Asia/Tokyo" {
				t.Errorf("a time zone: %s, %v", at, err)
			}
			rows, err := conn.Query(testContext(t), "SELECT 1 WHERE 0")
			if err != nil || rows.Next() || rows.Err() != nil {
				t.Errorf("no rows: %v, %v", err, rows.Err())
			}
			var e *ch.Exception
			if err := conn.Exec(testContext(t), "SELECT * FROM no_such_table"); !errors.As(err, &e) || e.Code != 60 {
				t.Errorf("an exception: %v", err)
			}
			if _, err := conn.Query(testContext(t), "SELECT sumState(number) FROM numbers(3)"); !errors.As(err, &e) ||
				e.Code != 48 {
				t.Errorf("a type whose extent is not known: %v", err)
			}
			rows, err = conn.Query(testContext(t), "SELECT number, throwIf(number = 900000, 'late') FROM "+
				"numbers(1000000)")
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
			}
			if err := rows.Err(); !errors.As(err, &e) || e.Code != 395 {
				t.Errorf("an exception behind rows: %v", err)
			}
		})
	}
}

// TestNativeOverHTTPOfAnalyst: what an analyst may not do is refused here, too.
func TestNativeOverHTTPOfAnalyst(t *testing.T) {
	prepareSecrets(t)
	opt := options(ch.CompressionLZ4)
	opt.Protocol, opt.Addr = ch.HTTP, []string{server.HTTPAddr().String()}
	opt.Auth.Username, opt.Auth.Password = "analyst", analystPassword
	conn := open(t, opt)
	if got := count(t, conn, "SELECT count() FROM facts"); got != 1000 {
		t.Error(got, "facts")
	}
	for _, sql := range statements(t, "attacks.sql") {
		if err := conn.Exec(testContext(t), sql); err == nil {
			t.Error(sql)
		}
	}
	if _, err := conn.PrepareBatch(testContext(t), "INSERT INTO facts"); err == nil {
		batch, _ := conn.PrepareBatch(testContext(t), "INSERT INTO facts")
		_ = batch.Append(uint32(1), "x")
		if err := batch.Send(); err == nil {
			t.Error("an analyst inserts")
		}
	}
	if got := count(t, client(t), "SELECT count() FROM facts"); got != 1000 {
		t.Error(got, "facts left")
	}
}

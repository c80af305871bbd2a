package clickhouse_test

import (
	"errors"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

func TestPing(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		if err := conn.Ping(testContext(t)); err != nil {
			t.Fatal(err)
		}
		v, err := conn.ServerVersion()
		if err != nil || v.Version.Major < 26 || v.Revision != native.Revision {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

func TestEmptyResult(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		rows, err := conn.Query(testContext(t), "SELECT toUInt8(1) AS a, 'x' AS b WHERE 0 -- nothing")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		if rows.Next() || rows.Err() != nil {
			t.Error("a row", rows.Err())
		}
		if got := rows.Columns(); len(got) != 2 || got[0] != "a" || got[1] != "b" {
			t.Errorf("columns %v", got)
		}
	})
}

func TestLargeResult(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		rows, err := conn.Query(testContext(t), "SELECT number, toString(number) FROM numbers(300000)")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var sum, n, v uint64
		var s string
		for rows.Next() {
			if err := rows.Scan(&v, &s); err != nil {
				t.Fatal(err)
			}
			sum += v
			n++
		}
		if rows.Err() != nil || n != 300_000 || sum != 44_999_850_000 || s != "299999" {
			t.Errorf("%d rows, sum %d, last %q, %v", n, sum, s, rows.Err())
		}
	})
}

func TestExceptions(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		for sql, code := range map[string]int32{
			"SELECT * FROM no_such_table":                 60,
			"SELECT no_such_function(1)":                  46,
			"SELEKT 1":                                    62,
			"SELECT 1; SELECT 2":                          62,
			"SELECT 1 INTO OUTFILE '/tmp/x'":              48,
			"INSERT INTO no_such_table VALUES":            60,
			"CREATE TABLE x (a Nonsense) ENGINE = Memory": 50,
			"SELECT throwIf(1, 'at the start')":           395,
			"USE no_such_database":                        81,
		} {
			err := conn.Exec(testContext(t), sql)
			var e *ch.Exception
			if !errors.As(err, &e) || e.Code != code {
				t.Errorf("%s: %v, want code %d", sql, err, code)
			}
		}
		if err := conn.Ping(testContext(t)); err != nil {
			t.Error("afterwards:", err)
		}
	})
}

func TestExceptionMidStream(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		rows, err := conn.Query(testContext(t), "SELECT number, throwIf(number = 900000, 'late') FROM numbers(1000000)")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for rows.Next() {
			n++
		}
		var e *ch.Exception
		if !errors.As(rows.Err(), &e) || e.Code != 395 || n == 0 || n > 900_000 {
			t.Errorf("after %d rows: %v", n, rows.Err())
		}
		_ = rows.Close()
		if got := count(t, conn, "SELECT toUInt64(7)"); got != 7 {
			t.Error("afterwards:", got)
		}
	})
}

package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// one is a client with a single connection, so that its queries share a session.
func one(t *testing.T) driver.Conn {
	opt := options(ch.CompressionNone)
	opt.MaxOpenConns, opt.MaxIdleConns = 1, 1
	return single{open(t, opt)}
}

// single is a pool of one connection. The driver lets the next caller in just before it
// puts back a connection that has answered a query, and would open another one for it.
// So a row waits until its connection is back.
type single struct{ driver.Conn }

func (s single) QueryRow(ctx context.Context, query string, args ...any) driver.Row {
	return singleRow{s.Conn.QueryRow(ctx, query, args...), s.Conn}
}

type singleRow struct {
	driver.Row
	conn driver.Conn
}

func (r singleRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	for err == nil && r.conn.Stats().Idle == 0 {
		runtime.Gosched()
	}
	return err
}

func TestSession(t *testing.T) {
	a, b := one(t), one(t)
	exec(t, a, "CREATE TEMPORARY TABLE mine (x UInt64)")
	exec(t, a, "INSERT INTO mine VALUES (1), (2)")
	exec(t, a, "SET max_block_size = 777")
	if got := count(t, a, "SELECT sum(x) FROM mine"); got != 3 {
		t.Error("temporary table:", got)
	}
	if err := b.Exec(testContext(t), "SELECT * FROM mine"); err == nil {
		t.Error("a temporary table is seen from another connection")
	}
	if got := count(t, b, "SELECT toUInt64(getSetting('max_block_size'))"); got == 777 {
		t.Error("a setting is seen from another connection")
	}
	exec(t, a, "USE system")
	if got := count(t, a, "SELECT count() FROM one"); got != 1 {
		t.Error("USE:", got)
	}
}

// A query's settings hold for it alone; what SET did is back after it.
func TestQuerySettings(t *testing.T) {
	conn := one(t)
	ask := func(ctx ch.Settings) (n uint64) {
		t.Helper()
		if err := conn.QueryRow(ch.Context(testContext(t), ch.WithSettings(ctx)),
			"SELECT toUInt64(getSetting('max_block_size'))").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	plain := ask(nil)
	if got := ask(ch.Settings{"max_block_size": 11}); got != 11 {
		t.Error("query setting:", got)
	}
	if got := ask(nil); got != plain {
		t.Error("afterwards:", got)
	}
	exec(t, conn, "SET max_block_size = 22")
	if got := ask(ch.Settings{"max_block_size": 11, "log_comment": "it's"}); got != 11 {
		t.Error("query setting over SET:", got)
	}
	if got := ask(nil); got != 22 {
		t.Error("SET afterwards:", got)
	}
	ctx := ch.Context(testContext(t), ch.WithSettings(ch.Settings{"no_such_setting": 1}))
	if err := conn.Exec(ctx, "SELECT 1"); err == nil {
		t.Error("an unknown setting is taken")
	}
	// clickhouse-go gives up a connection, and its session, with an exception.
	if got := ask(nil); got != plain {
		t.Error("after an unknown setting:", got)
	}
}

// TestAnalystsExternalTables are refused by name.
func TestAnalystsExternalTables(t *testing.T) {
	table, err := ext.NewTable("given", ext.Column("a", "UInt8"))
	if err != nil {
		t.Fatal(err)
	}
	conn := analyst(t)
	err = conn.Exec(ch.Context(testContext(t), ch.WithExternalTable(table)), "SELECT * FROM given")
	var e *ch.Exception
	if !errors.As(err, &e) || !strings.Contains(e.Message, "external tables are not supported") {
		t.Error(err)
	}
	if got := count(t, conn, "SELECT toUInt64(1)"); got != 1 {
		t.Error("afterwards:", got)
	}
}

func TestAlterBetweenInserts(t *testing.T) {
	conn := one(t)
	exec(t, conn, "CREATE OR REPLACE TABLE altered (a UInt64) ENGINE = MergeTree ORDER BY a")
	insert := func(values ...any) {
		t.Helper()
		batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO altered")
		if err == nil {
			err = batch.Append(values...)
		}
		if err == nil {
			err = batch.Send()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	insert(uint64(1))
	exec(t, conn, "ALTER TABLE altered ADD COLUMN b String FIRST")
	insert("x", uint64(2))
	exec(t, conn, "ALTER TABLE altered DROP COLUMN b")
	insert(uint64(3))
	if got := count(t, conn, "SELECT sum(a) FROM altered"); got != 6 {
		t.Error(got)
	}
}

func TestConcurrentConnections(t *testing.T) {
	exec(t, client(t), "CREATE OR REPLACE TABLE crowd (w UInt64, i UInt64) ENGINE = MergeTree ORDER BY (w, i)")
	var crowd sync.WaitGroup
	for w := range 8 {
		crowd.Go(func() {
			conn := one(t)
			for i := range 5 {
				if err := conn.Exec(testContext(t), fmt.Sprintf("INSERT INTO crowd VALUES (%d, %d)", w,
					i)); err != nil {
					t.Error(err)
				}
				var n uint64
				if err := conn.QueryRow(testContext(t),
					fmt.Sprintf("SELECT count() FROM crowd WHERE w = %d", w)).Scan(&n); err != nil || n != uint64(i+1) {
					t.Error(w, i, n, err)
				}
			}
		})
	}
	crowd.Wait()
	if got := count(t, client(t), "SELECT count() FROM crowd"); got != 40 {
		t.Error(got)
	}
}

// A failed insert leaves nothing behind and the connection usable.
func TestFailedInsert(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		exec(t, conn, "CREATE OR REPLACE TABLE checked (a UInt64, CONSTRAINT small CHECK a < 10) ENGINE = MergeTree "+
			"ORDER BY a")
		batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO checked")
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(20) {
			if err := batch.Append(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Send(); err == nil {
			t.Error("no error")
		}
		if got := count(t, conn, "SELECT count() FROM checked"); got != 0 {
			t.Error(got, "rows")
		}
	})
}

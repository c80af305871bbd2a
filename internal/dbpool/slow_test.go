package dbpool_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// TestSlow: a slow statement is logged and counted, with its parameters' types and lengths and
// none of their values.
func TestSlow(t *testing.T) {
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	slow, err := dbpool.NewSlow(1, reg, logger) // everything is slow
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig(postgres.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	pg, err := dbpool.Postgres(t.Context(), cfg, reg, "postgres", slow, logger)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	ch, _, err := dbpool.ClickHouse(engine.Database(t), reg, "query", slow)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	told := func(what string, want ...string) {
		t.Helper()
		text := log.String()
		log.Reset()
		for _, w := range append(want, `"msg":"slow statement"`) {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %s has no %s", what, text, w)
			}
		}
		if strings.Contains(text, "secret") || strings.Contains(text, "2041524609") {
			t.Errorf("%s: %s has a value", what, text)
		}
	}
	if _, err := pg.Exec(t.Context(), "SELECT $1::text, $2::bigint[], 'secret',\n 'it''s secret'",
		"secret", []int64{2041524609, 2041524609, 2041524609}); err != nil {
		t.Fatal(err)
	}
	told("a statement", `"pool":"postgres"`, `SELECT $1::text, $2::bigint[], '…', '…'`, `string(6), []int64(3)`)
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("SELECT $1::integer", 2041524609)
	b.Queue("COMMIT")
	if err := pg.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	told("a batch", `SELECT $1::integer`, `"parameters":"int"`, `"statements_with_it":2`)
	rows, err := ch.Query(t.Context(), "-- What it is for.\nSELECT {name:String}", clickhouse.Named("name", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	told("rows of ClickHouse", `"pool":"query"`, `"statement":"SELECT {name:String}"`, `"parameters":"@name string(6)"`)
	slowOfClickHouse(t, ch, told)
	if n := testutil.CollectAndCount(reg, "millrace_slow_statements_total"); n != 2 {
		t.Errorf("%d pools have slow statements, want 2", n)
	}
	if none, err := dbpool.NewSlow(0, reg, logger); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

// slowOfClickHouse tries every call of a pool that sends a statement.
func slowOfClickHouse(t *testing.T, ch driver.Conn, told func(what string, want ...string)) {
	const table = "CREATE TABLE slow (n UInt64, s String) ENGINE = MergeTree ORDER BY n"
	if err := ch.Exec(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	told("a command", "CREATE TABLE slow")
	batch, err := ch.PrepareBatch(t.Context(), "INSERT INTO slow")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := batch.Append(uint64(2041524609), "secret"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(batch.Send(), batch.Close()); err != nil {
		t.Fatal(err)
	}
	told("an insert", "INSERT INTO slow", `"rows":3`)
	var n uint64
	if err := ch.QueryRow(t.Context(), "SELECT count() FROM slow WHERE s = ?", "secret").Scan(&n); err != nil || n != 3 {
		t.Fatalf("%d rows, %v", n, err)
	}
	told("a row", "SELECT count() FROM slow", "string(6)")
	var all []struct {
		N uint64 `ch:"n"`
	}
	if err := ch.Select(t.Context(), &all, "SELECT n FROM slow"); err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	told("rows at once", "SELECT n FROM slow")
	for what, call := range map[string]func() error{
		"a command":    func() error { return ch.Exec(t.Context(), "no statement") },
		"a row":        func() error { return ch.QueryRow(t.Context(), "no statement").Scan(&n) },
		"rows at once": func() error { return ch.Select(t.Context(), &all, "no statement") },
		"rows":         func() error { _, err := ch.Query(t.Context(), "no statement"); return err },
		"an insert":    func() error { _, err := ch.PrepareBatch(t.Context(), "INSERT INTO none"); return err },
	} {
		if call() == nil {
			t.Errorf("%s that is wrong succeeds", what)
		}
		told(what+" that fails", `"failed":true`)
	}
}

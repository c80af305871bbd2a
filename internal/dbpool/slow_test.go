package dbpool_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
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
	opened, err := clickhouse.Open(engine.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	ch, err := dbpool.ClickHouse(opened, reg, "query", slow)
	if err != nil {
		t.Fatal(err)
	}
	told := func(what string, want ...string) {
		t.Helper()
		text := log.String()
		log.Reset()
		for _, w := range append(want, `"msg":"slow statement"`) {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %s has no %s", what, text, w)
			}
		}
		if strings.Contains(text, "secret") || strings.Contains(text, "4711") {
			t.Errorf("%s: %s has a value", what, text)
		}
	}
	if _, err := pg.Exec(t.Context(), "SELECT $1::text, $2::bigint[], 'secret',\n 'it''s secret'",
		"secret", []int64{4711, 4711, 4711}); err != nil {
		t.Fatal(err)
	}
	told("a statement", `"pool":"postgres"`, `SELECT $1::text, $2::bigint[], '…', '…'`, `string(6), []int64(3)`)
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("SELECT $1::integer", 4711)
	b.Queue("COMMIT")
	if err := pg.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	told("a batch", `SELECT $1::integer`, `"parameters":"int"`, `"statements_with_it":2`)
	rows, err := ch.Query(t.Context(), "SELECT {name:String}", clickhouse.Named("name", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	told("rows of ClickHouse", `"pool":"query"`, `SELECT {name:String}`, "NamedValue")
	if n := testutil.CollectAndCount(reg, "millrace_slow_statements_total"); n != 2 {
		t.Errorf("%d pools have slow statements, want 2", n)
	}
	if none, err := dbpool.NewSlow(0, reg, logger); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

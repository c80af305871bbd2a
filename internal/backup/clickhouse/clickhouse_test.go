package clickhouse_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/backup/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill puts rows of all types of columns into each table.
var fill = []string{
	`INSERT INTO events (seq, occurred_at, received_at, stage, source_name, article_url, article_hash, identity, metadata,
		quality_score, topics, is_duplicate)
	SELECT number + 1, toDateTime64('2026-01-31 23:59:00.123456789', 9, 'UTC') + number, now64(9), ['crawled', 'indexed'][1 + number % 2],
		concat('source ', toString(number % 7)), concat('https://example.com/é/', toString(number)), SHA256(toString(number)),
		toFixedString(substring(SHA256(toString(number)), 1, 16), 16), '{"a":1}', if(number % 3 = 0, NULL, number / 7),
		if(number % 4 = 0, [], ['a', toString(number % 3)]), number % 2
	FROM numbers(200000)`,
	`INSERT INTO funnel (width, bucket, source, stage, slot_group, events, article_set, seq, recent)
	SELECT 900, toDateTime('2026-01-01', 'UTC') + 900 * number, 's', 'crawled', number % 3, number, repeat('\0', number), number, 0
	FROM numbers(1000)`,
	`INSERT INTO events_daily (period, stage, source_name, upto, events, articles, quality_values, quality_counts)
	SELECT toDate('2026-01-01') + number % 40, 'crawled', toString(number % 3), 7, count(), uniqCombined64State(toFixedString(SHA256(toString(number)), 32)),
		[1.5, 2.5], [1, 2] FROM numbers(5000) GROUP BY number % 40, number % 3, number`,
	`INSERT INTO item_outcomes (job_id, fetch_status, crawled_at, content, seq, read_at)
	SELECT toString(number), if(number % 2 = 0, 'success', 'error'), if(number % 2 = 0, NULL, now64(9)), repeat('x', 100), number, now64(9)
	FROM numbers(1000)`,
}

// TestTables: the rows of each table are the same in another database, states of aggregate functions among them, and
// so are those of a part alone.
func TestTables(t *testing.T) {
	slowtest.Mark(t)
	ctx := t.Context()
	from := engine.Database(t)
	db := driver.OpenDB(from)
	defer db.Close()
	for _, statement := range fill {
		_, err := db.ExecContext(ctx, statement)
		must(t, err)
	}
	source := clickhouse.Open(from)
	defer source.Close()
	tables, err := source.Tables(ctx)
	must(t, err)
	if len(tables) < 8 {
		t.Fatalf("tables %v", tables)
	}
	to := engine.Empty(t)
	target := clickhouse.Open(to)
	defer target.Close()
	must(t, target.Prepare(ctx))
	must(t, target.Prepare(ctx)) // the first one's restore has not ended
	must(t, target.Release(ctx))
	if err := target.Prepare(ctx); err == nil {
		t.Error("a database with tables is restored to")
	}
	for _, name := range tables {
		part := clickhouse.Part{Table: name}
		if name == "events" {
			part.Where = "seq <= 150000"
		}
		var copied bytes.Buffer
		fixed := 0
		must(t, source.Save(ctx, &part, &copied, func() error { fixed++; return nil }))
		if fixed != 1 {
			t.Errorf("the view of %s was fixed %d times", name, fixed)
		}
		must(t, target.Restore(ctx, part, &copied))
	}
	for _, query := range []string{
		"SELECT toString((count(), max(seq), sum(cityHash64(*)))) FROM events WHERE seq <= 150000",
		"SELECT toString((count(), sum(cityHash64(*)))) FROM funnel",
		"SELECT toString((count(), sum(cityHash64(* EXCEPT articles)))) FROM events_daily",
		"SELECT toString(uniqCombined64Merge(articles)) FROM events_daily",
		"SELECT toString(arraySort(groupArray(finalizeAggregation(articles)))) FROM events_daily WHERE upto = 7",
		"SELECT toString((count(), sum(cityHash64(*)))) FROM item_outcomes",
		"SELECT toString(count()) FROM system.tables WHERE database = currentDatabase()",
	} {
		want, err := source.Text(ctx, query)
		must(t, err)
		got, err := target.Text(ctx, query)
		must(t, err)
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if got, err := target.Text(ctx, "SELECT toString(count()) FROM events"); err != nil || got != "150000" {
		t.Errorf("%s events, %v", got, err)
	}
	moved := errors.New("moved")
	err = source.Save(ctx, &clickhouse.Part{Table: "events"}, new(bytes.Buffer), func() error { return moved })
	if !errors.Is(err, moved) {
		t.Errorf("a copy that must not be is %v", err)
	}
}

package clickhouse_test

import (
	"fmt"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// BenchmarkInsert inserts batches of 50,000 rows of 25 columns.
func BenchmarkInsert(b *testing.B) {
	for name, method := range map[string]ch.CompressionMethod{"plain": ch.CompressionNone, "lz4": ch.CompressionLZ4} {
		b.Run(name, func(b *testing.B) {
			conn := open(b, options(method))
			exec(b, conn, "DROP TABLE IF EXISTS bench")
			sql, row := "CREATE TABLE bench (at DateTime64(9, 'UTC')", []any{time.Unix(1_700_000_000, 0)}
			for i := range 8 {
				sql += fmt.Sprintf(", low%d LowCardinality(String), n%d UInt64, s%d String", i, i, i)
				row = append(row, fmt.Sprint("value ", i), uint64(i), fmt.Sprint("https://example.com/article/", i))
			}
			exec(b, conn, sql+") ENGINE = MergeTree ORDER BY at SETTINGS non_replicated_deduplication_window = 1000")
			const rows = 50_000
			for b.Loop() {
				b.StopTimer()
				batch, err := conn.PrepareBatch(b.Context(), "INSERT INTO bench")
				if err != nil {
					b.Fatal(err)
				}
				for i := range rows {
					row[0], row[2] = time.Unix(1_700_000_000, int64(i)), uint64(i)
					row[3] = fmt.Sprint("https://example.com/article/", i)
					if err := batch.Append(row...); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if err := batch.Send(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkSelectOne is the least that a query costs.
func BenchmarkSelectOne(b *testing.B) {
	conn := client(b)
	for b.Loop() {
		if err := conn.Exec(b.Context(), "SELECT 1"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDescribe compares SELECTs with and without the question for their
// columns, which the native protocol asks before each.
func BenchmarkDescribe(b *testing.B) {
	conn := client(b)
	exec(b, conn, "CREATE OR REPLACE TABLE described (n UInt64, s LowCardinality(String)) ENGINE = MergeTree "+
		"ORDER BY n")
	exec(b, conn, "INSERT INTO described SELECT number, toString(number % 10) FROM numbers(100000)")
	defer exec(b, conn, "DROP TABLE described")
	run, stop, err := server.Selecting()
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	for name, text := range map[string]string{
		"one": "SELECT 1", "point": "SELECT s FROM described WHERE n = 777",
		"group": "SELECT s, count(), sum(n) FROM described GROUP BY s ORDER BY s",
	} {
		b.Run(name, func(b *testing.B) {
			var took [2]time.Duration
			for b.Loop() {
				for i, columns := range []bool{false, true} {
					began := time.Now()
					if err := run(text, columns); err != nil {
						b.Fatal(err)
					}
					took[i] += time.Since(began)
				}
			}
			b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "without-µs")
			b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "with-µs")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
		})
	}
}

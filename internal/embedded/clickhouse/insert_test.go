package clickhouse_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

func TestInsert(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		exec(t, conn, "DROP TABLE IF EXISTS inserted")
		exec(t, conn, "CREATE TABLE inserted (n UInt64, s String, at DateTime64(3,'UTC'), d UInt8 DEFAULT 7, m "+
			"UInt64 MATERIALIZED n + 1) ENGINE = MergeTree ORDER BY n")
		for part := range 2 {
			batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO inserted (n, s, at)")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 50_000 {
				if err := batch.Append(uint64(i+part*50_000), fmt.Sprint("row\n\n", i),
					time.Unix(int64(i), 0)); err != nil {
					t.Fatal(err)
				}
			}
			if err := batch.Send(); err != nil {
				t.Fatal(err)
			}
		}
		if got := count(t, conn, "SELECT count() FROM inserted WHERE d = 7 AND m = n + 1 AND endsWith(s, "+
			"concat('\n', toString(n % 50000)))"); got != 100_000 {
			t.Error(got, "rows")
		}
		if got := count(t, conn, "SELECT sum(level = 0) + sum(level > 0) * 2 FROM system.parts WHERE table = "+
			"'inserted' AND active"); got != 2 {
			t.Error(got, "parts for two inserts")
		}
	})
}

package clickhouse_test

import (
	"fmt"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// TestSelfDescribedTypes: values whose types stand beside them come in and go out
// in both of the ways in which the engine writes them, with other columns behind.
func TestSelfDescribedTypes(t *testing.T) {
	test := func(t *testing.T, conn driver.Conn) {
		exec(t, conn, `CREATE OR REPLACE TABLE selfdescribed (n UInt32, v Variant(Array(UInt8), String, UInt64), d Dynamic,
			j JSON(a.b UInt32, SKIP z), a Array(Dynamic), after String) ENGINE = MergeTree ORDER BY n`)
		batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO selfdescribed")
		if err != nil {
			t.Fatal(err)
		}
		object := ch.NewJSON()
		object.SetValueAtPath("a.b", uint32(7))
		object.SetValueAtPath("c", "x")
		for n := range uint32(300) {
			variant := []any{uint64(n), ch.NewVariantWithType("text", "String"), []uint8{1, 2}, nil}[n%4]
			dynamic := []any{
				ch.NewDynamicWithType(int64(n), "Int64"),
				ch.NewDynamicWithType([]string{"p"}, "Array(String)"), nil,
			}[n%3]
			if err := batch.Append(n, variant, dynamic, object, []ch.Dynamic{ch.NewDynamicWithType("e", "String")},
				"after"); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Send(); err != nil {
			t.Fatal(err)
		}
		_, _, got := call(t, "POST", nil, `SELECT count(), countIf(v.UInt64 = n),
			countIf(variantType(v) = 'Array(UInt8)'), countIf(v IS NULL),
			countIf(d.Int64 = n), countIf(dynamicType(d) = 'Array(String)'), sum(j.a.b), countIf(j.c = 'x'),
			countIf(dynamicElement(a[1], 'String') = 'e'), any(after) FROM selfdescribed FORMAT TSV`)
		if want := "300\t75\t75\t75\t100\t100\t2100\t300\t300\tafter\n"; got != want {
			t.Errorf("stored %q, want %q", got, want)
		}
		for _, flattened := range []int{0, 1} {
			readSelfDescribed(t, conn, flattened)
		}
	}
	eachTransport(t, test)
	t.Run("http", func(t *testing.T) { test(t, overHTTP(t, ch.CompressionLZ4, nil)) })
}

func readSelfDescribed(t *testing.T, conn driver.Conn, flattened int) {
	t.Helper()
	ctx := ch.Context(testContext(t), ch.WithSettings(ch.Settings{
		"output_format_native_use_flattened_dynamic_and_json_serialization": flattened, "max_block_size": 100,
	}))
	rows, err := conn.Query(ctx, "SELECT n, v, d, a, after, j FROM selfdescribed ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := uint32(0)
	for ; rows.Next(); n++ {
		var number uint32
		var v ch.Variant
		var d ch.Dynamic
		var a []ch.Dynamic
		var after string
		var j ch.JSON
		if err := rows.Scan(&number, &v, &d, &a, &after, &j); err != nil {
			t.Fatalf("flattened %d: %v", flattened, err)
		}
		b, _ := ch.ExtractJSONPathAs[uint32](&j, "a.b")
		got := fmt.Sprint(number, v.Any(), d.Any(), a[0].Any(), after, b)
		want := fmt.Sprint(n, []any{uint64(n), "text", []uint8{1, 2}, nil}[n%4],
			[]any{int64(n), []string{"p"}, nil}[n%3], "e", "after", uint32(7))
		if got != want {
			t.Fatalf("flattened %d: %s, want %s", flattened, got, want)
		}
	}
	if n != 300 || rows.Err() != nil {
		t.Errorf("flattened %d: %d rows, %v", flattened, n, rows.Err())
	}
}

// TestStatesInResults: states of aggregate functions arrive in the last column;
// elsewhere they are refused by name.
func TestStatesInResults(t *testing.T) {
	for sql, answer := range map[string]string{
		"SELECT 'text', sumState(number) AS s FROM numbers(3)":       "AggregateFunction(sum, UInt64)\x00\x03\x00",
		"SELECT sumState(number) AS other, 'behind' FROM numbers(3)": "column other AggregateFunction(sum, UInt64)",
	} {
		raw := dial(t, "default", password)
		raw.query(sql)
		raw.await(answer)
	}
}

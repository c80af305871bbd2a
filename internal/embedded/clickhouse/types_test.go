package clickhouse_test

import (
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"
)

// typed is a column: its type, a value inserted by a client, and the same value
// as TSV.
type typed struct {
	name  string
	value any
	text  string
}

func typedColumns() []typed {
	at := time.Date(2026, 2, 10, 14, 30, 15, 123456789, time.UTC)
	hash := strings.Repeat("0123456789abcdef", 2)
	text := "it's"
	return []typed{
		{"UInt8", uint8(255), "255"},
		{"UInt16", uint16(65535), "65535"},
		{"UInt32", uint32(1 << 31), "2147483648"},
		{"UInt64", uint64(1<<64 - 1), "18446744073709551615"},
		{"Int8", int8(-128), "-128"},
		{"Int16", int16(-32768), "-32768"},
		{"Int32", int32(-1 << 31), "-2147483648"},
		{"Int64", int64(-1 << 63), "-9223372036854775808"},
		{"Float32", float32(0.5), "0.5"},
		{"Float64", float64(-1.25), "-1.25"},
		{"Bool", true, "true"},
		{"String", "a\n\n\x00b\xffc", "a\\n\\n\\0b\xffc"},
		{"FixedString(16)", hash[:16], hash[:16]},
		{"FixedString(32)", hash, hash},
		{"LowCardinality(String)", "low", "low"},
		{"LowCardinality(Nullable(String))", (*string)(nil), `\N`},
		{"LowCardinality(FixedString(4))", "abcd", "abcd"},
		{"Enum8('a,b' = 1, 'it\\'s (b)' = 2)", "it's (b)", `it\'s (b)`},
		{"Date", time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC), "2026-02-10"},
		{"DateTime('UTC')", at.Truncate(time.Second), "2026-02-10 14:30:15"},
		{"DateTime64(9, 'UTC')", at, "2026-02-10 14:30:15.123456789"},
		{"DateTime64(3, 'UTC')", at.Truncate(time.Millisecond), "2026-02-10 14:30:15.123"},
		{"Array(LowCardinality(String))", []string{"x", "y", "x"}, `['x','y','x']`},
		{"Array(UInt64)", []uint64{}, `[]`},
		{"Array(Array(Nullable(Int32)))", [][]*int32{{nil}, {}}, `[[NULL],[]]`},
		{"Map(String, UInt64)", map[string]uint64{"k": 7}, `{'k':7}`},
		{"Map(LowCardinality(String), Array(String))", map[string][]string{"k": {"v", "w"}}, `{'k':['v','w']}`},
		{"Nullable(String)", &text, `it\'s`},
		{"Nullable(UInt32)", (*uint32)(nil), `\N`},
		{"Nullable(DateTime64(9, 'UTC'))", &at, "2026-02-10 14:30:15.123456789"},
		{"UUID", uuid.MustParse("61f0c404-5cb3-11e7-907b-a6006ad3dba0"), "61f0c404-5cb3-11e7-907b-a6006ad3dba0"},
		{"Decimal(18, 4)", decimal.RequireFromString("-12345.6789"), "-12345.6789"},
		{"Decimal(38, 2)", decimal.RequireFromString("12345678901234567890.12"), "12345678901234567890.12"},
		{"Tuple(UInt8, String)", []any{uint8(1), "x"}, `(1,'x')`},
		{"Tuple(a UInt8, b Array(String))", map[string]any{"a": uint8(1), "b": []string{"x"}}, `(1,['x'])`},
		{"IPv4", net.IPv4(192, 0, 2, 1).To4(), "192.0.2.1"},
		{"IPv6", net.ParseIP("2001:db8::1"), "2001:db8::1"},
		{"SimpleAggregateFunction(max, UInt64)", uint64(3), "3"},
	}
}

// Every type goes in and comes back the same, and the engine saw the right value.
func TestTypes(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		for _, c := range typedColumns() {
			exec(t, conn, "CREATE OR REPLACE TABLE typed (n UInt32, v "+c.name+", after String) ENGINE = MergeTree ORDER BY n")
			batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO typed")
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for n := range uint32(3) {
				if err := batch.Append(n, c.value, "after"); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
			}
			if err := batch.Send(); err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			readBack(t, conn, c)
		}
	})
}

func readBack(t *testing.T, conn driver.Conn, c typed) {
	t.Helper()
	_, _, text := call(t, "POST", nil, "SELECT v, after FROM typed ORDER BY n FORMAT TSV")
	if want := strings.Repeat(c.text+"\tafter\n", 3); text != want {
		t.Errorf("%s: stored %q, want %q", c.name, text, want)
	}
	rows, err := conn.Query(testContext(t), "SELECT v FROM typed ORDER BY n")
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
		return
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		got := reflect.New(rows.ColumnTypes()[0].ScanType())
		if err := rows.Scan(got.Interface()); err != nil {
			t.Errorf("%s: %v", c.name, err)
			return
		}
		if !sameValue(got.Elem().Interface(), c.value) {
			t.Errorf("%s: %#v, want %#v", c.name, got.Elem().Interface(), c.value)
		}
	}
	if n != 3 || rows.Err() != nil {
		t.Errorf("%s: %d rows, %v", c.name, n, rows.Err())
	}
}

func sameValue(got, want any) bool {
	switch w := want.(type) {
	case time.Time:
		return got.(time.Time).Equal(w)
	case *time.Time:
		return (*got.(*time.Time)).Equal(*w)
	case decimal.Decimal:
		return got.(decimal.Decimal).Equal(w)
	case net.IP:
		return got.(net.IP).Equal(w)
	}
	return reflect.DeepEqual(got, want)
}

func TestJSONType(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		exec(t, conn, "CREATE OR REPLACE TABLE documents (n UInt32, j JSON) ENGINE = MergeTree ORDER BY n")
		exec(t, conn, `INSERT INTO documents VALUES (1, '{"a":{"b":7},"c":"x"}')`)
		batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO documents")
		if err != nil {
			t.Fatal(err)
		}
		if err := batch.Append(uint32(2), `{"a":{"b":8},"d":[1,2]}`); err != nil {
			t.Fatal(err)
		}
		if err := batch.Send(); err != nil {
			t.Fatal(err)
		}
		if got := count(t, conn, "SELECT toUInt64(sum(j.a.b::UInt64)) FROM documents"); got != 15 {
			t.Error(got)
		}
		var text string
		if err := conn.QueryRow(testContext(t), "SELECT toString(j) FROM documents WHERE n = 2").Scan(&text); err != nil || !strings.Contains(text, `"b":8`) {
			t.Error(text, err)
		}
	})
}

func TestAggregateStates(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		exec(t, conn, "CREATE OR REPLACE TABLE states (k String, u AggregateFunction(uniq, UInt64), s "+
			"AggregateFunction(sum, UInt64)) ENGINE = AggregatingMergeTree ORDER BY k")
		exec(t, conn, "INSERT INTO states SELECT 'a', uniqState(toUInt64(number % 10)), sumState(number) FROM "+
			"numbers(100)")
		var uniq, sum uint64
		if err := conn.QueryRow(testContext(t), "SELECT uniqMerge(u), sumMerge(s) FROM states").Scan(&uniq,
			&sum); err != nil || uniq != 10 || sum != 4950 {
			t.Error(uniq, sum, err)
		}
		var finalised uint64
		if err := conn.QueryRow(testContext(t), "SELECT finalizeAggregation(u) FROM states").Scan(&finalised); err != nil || finalised != 10 {
			t.Error(finalised, err)
		}
		var raw string
		if err := conn.QueryRow(testContext(t), "SELECT hex(s) FROM states").Scan(&raw); err != nil || raw == "" {
			t.Error(raw, err)
		}
		if _, _, text := call(t, "POST", nil, "SELECT length(toString(u)) > 0, u FROM states FORMAT TSV"); !strings.HasPrefix(text, "1\t") {
			t.Errorf("%q", text)
		}
	})
}

package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// word is the only value that a query returns.
func word(t *testing.T, ctx context.Context, conn driver.Conn, sql string) (s string) {
	t.Helper()
	if err := conn.QueryRow(ctx, sql).Scan(&s); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
	return s
}

// TestParameters: both logins bind values of parameters, and statements of all
// kinds have them.
func TestParameters(t *testing.T) {
	params := ch.Parameters{"n": "41", "s": "it's \\\\ a\\ttab", "t": "parameterised", "a": "[1,2]"}
	for name, conn := range map[string]driver.Conn{"default": client(t), "analyst": analyst(t)} {
		ctx := ch.Context(testContext(t), ch.WithParameters(params))
		if got := word(t, ctx, conn, "SELECT toString({n:UInt8} + 1) || {s:String} || toString({a:Array(UInt8)})"); got != "42it's \\ a\ttab[1,2]" {
			t.Errorf("%s: %q", name, got)
		}
	}
	conn := client(t)
	ctx := ch.Context(testContext(t), ch.WithParameters(params))
	for _, sql := range []string{
		"CREATE OR REPLACE TABLE {t:Identifier} (n UInt8) ENGINE = Memory",
		"INSERT INTO {t:Identifier} SELECT {n:UInt8}", "INSERT INTO {t:Identifier} VALUES ({n:UInt8})",
	} {
		if err := conn.Exec(ctx, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO {t:Identifier}")
	if err == nil {
		err = errors.Join(batch.Append(uint8(41)), batch.Send())
	}
	if got := count(t, conn, "SELECT toUInt64(sum(n)) FROM parameterised"); got != 3*41 || err != nil {
		t.Error(got, err)
	}
	var e *ch.Exception
	if err := conn.Exec(testContext(t), "SELECT {n:UInt8}"); !errors.As(err, &e) || e.Code != 456 {
		t.Errorf("without a value: %v", err)
	}
}

// TestColumnTypes: types arrive as they are, with the zones of moments and on one
// line, in results and in the headers of inserts.
func TestColumnTypes(t *testing.T) {
	const kinds = "DateTime('Asia/Tokyo'), Tuple(a UInt8, b Tuple(c String, d Nullable(UInt8))), DateTime, " +
		"Nullable(DateTime('UTC'))"
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		exec(t, conn, "CREATE OR REPLACE TABLE kinds (k1 DateTime('Asia/Tokyo'), "+
			"k2 Tuple(a UInt8, b Tuple(c String, d Nullable(UInt8))), k3 DateTime, k4 Nullable(DateTime('UTC'))) "+
			"ENGINE = Memory")
		exec(t, conn, "INSERT INTO kinds VALUES (86400, (1, ('x', 2)), 0, NULL)")
		for _, sql := range []string{"SELECT * FROM kinds", "SELECT * FROM kinds WHERE 0"} {
			rows, err := conn.Query(testContext(t), sql)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range rows.ColumnTypes() {
				got = append(got, c.DatabaseTypeName())
			}
			if strings.Join(got, ", ") != kinds || rows.Close() != nil {
				t.Errorf("%s: %q", sql, got)
			}
		}
		batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO kinds")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range batch.Columns() {
			got = append(got, string(c.Type()))
		}
		if strings.Join(got, ", ") != kinds || batch.Abort() != nil {
			t.Errorf("insert: %q", got)
		}
	})
}

// TestTotalsAndExtremes: totals arrive beside the rows, whatever is in them, and
// so do extremes, with either login.
func TestTotalsAndExtremes(t *testing.T) {
	const sql = `SELECT s, count(), toDateTime(max(n), 'Asia/Tokyo')
		FROM (SELECT number AS n, ['', 'a\f\n\t'][n % 2 + 1] AS s FROM numbers(5))
		GROUP BY s WITH TOTALS ORDER BY s`
	for name, conn := range map[string]driver.Conn{"default": client(t), "analyst": analyst(t)} {
		rows, err := conn.Query(testContext(t), sql)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var text string
		var s string
		var n uint64
		var at time.Time
		for rows.Next() {
			if err := rows.Scan(&s, &n, &at); err != nil {
				t.Error(name, err)
			}
			text += fmt.Sprintf("%q %d %d; ", s, n, at.Unix())
		}
		if err := rows.Totals(&s, &n, &at); err != nil || rows.Err() != nil {
			t.Error(name, err, rows.Err())
		}
		text += fmt.Sprintf("%q %d %s", s, n, at.UTC().Format(time.TimeOnly))
		if want := `"" 3 4; "a\f\n\t" 2 3; "" 5 00:00:04`; text != want {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
	for _, end := range []string{"", " SETTINGS extremes = 1"} {
		raw := dial(t, "default", password)
		if end == "" {
			raw.query("SET extremes = 1")
			raw.await("\x05") // the end of the answer
		}
		raw.query("SELECT 'value ' || toString(number) FROM numbers(3)" + end)
		raw.await("value 0\avalue 2") // the extremes
	}
}

// TestProgress: a statement that returns nothing for long says how far it is.
func TestProgress(t *testing.T) {
	for name, conn := range map[string]driver.Conn{"default": client(t), "analyst": analyst(t)} {
		var mu sync.Mutex
		var packets int
		var rows uint64
		ctx := ch.Context(context.Background(), ch.WithProgress(func(p *ch.Progress) { // a deadline would set max_execution_time
			mu.Lock()
			defer mu.Unlock()
			packets++
			rows += p.Rows
		}))
		if got := count(t, conn, "SELECT toUInt64(1)"); got != 1 {
			t.Fatal(got)
		}
		sql := "SELECT count() FROM numbers(40000000000) WHERE NOT ignore(sipHash64(number)) SETTINGS " +
			"max_execution_time = 2, timeout_overflow_mode = 'break'"
		if name == "analyst" {
			sql = strings.Split(sql, " SETTINGS")[0]
			ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{
				"max_execution_time":    2,
				"timeout_overflow_mode": "break",
			}))
		}
		if err := conn.Exec(ctx, sql); err != nil {
			t.Error(name, err)
		}
		if packets < 3 || rows == 0 { // one or two are told at the end
			t.Errorf("%s: %d packets, %d rows", name, packets, rows)
		}
	}
}

// TestQueryID: the id of a client is what the statement has, and what it is killed
// by, whatever is in the id.
func TestQueryID(t *testing.T) {
	watch := client(t)
	for _, id := range []string{"plain-id", "odd */ 'id'"} {
		ctx := ch.Context(testContext(t), ch.WithQueryID(id))
		for name, conn := range map[string]driver.Conn{"default": client(t), "analyst": analyst(t)} {
			if got := word(t, ctx, conn, "SELECT lower(queryID()) || initial_query_id()"); got != id+id {
				t.Errorf("%s: %q, want %q", name, got, id)
			}
		}
		params := values("query_id", id)
		for _, login := range []string{"default:" + password, "analyst:" + analystPassword} {
			name, key, _ := strings.Cut(login, ":")
			if _, _, got := callAs(t, name, key, "POST", params, "SELECT queryID() FORMAT TSVRaw"); got != id+"\n" {
				t.Errorf("%s over HTTP: %q, want %q", name, got, id)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- client(t).Exec(ctx, fmt.Sprintf(computing, "killed-by-id")) }()
		for count(t, watch, "SELECT count() FROM system.processes WHERE query LIKE 'SELECT sum%killed-by-id%'") == 0 { // and no longer its DESCRIBE
		}
		exec(t, watch, "KILL QUERY WHERE query_id = '"+strings.ReplaceAll(id, "'", "''")+"' ASYNC")
		var e *ch.Exception
		if err := <-ended; !errors.As(err, &e) || e.Code != 394 {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestKillInsert: an insert over HTTP is killed by its id, as a query is.
func TestKillInsert(t *testing.T) {
	watch := client(t)
	exec(t, watch, "CREATE OR REPLACE TABLE killed_insert (n UInt64 MATERIALIZED sleepEachRow(0.05), m UInt8) "+
		"ENGINE = MergeTree ORDER BY m")
	const id = "an-insert"
	ended := make(chan string, 1)
	go func() {
		params := values("query", "INSERT INTO killed_insert FORMAT TSV", "query_id", id,
			"function_sleep_max_microseconds_per_block", "0")
		_, _, text := call(t, "POST", params, strings.Repeat("1\n", 500))
		ended <- text
	}()
	for count(t, watch, "SELECT count() FROM system.processes WHERE query LIKE '%INTO killed_insert%INFILE%' AND "+
		"query NOT LIKE '%processes%'") == 0 {
	}
	exec(t, watch, "KILL QUERY WHERE query_id = '"+id+"' ASYNC")
	if text := <-ended; !strings.Contains(text, "QUERY_WAS_CANCELLED") {
		t.Errorf("the insert ended with %q", text)
	}
}

// TestCurrentUser: each login has its own name, and the columns the names that
// they have on a server.
func TestCurrentUser(t *testing.T) {
	for name, conn := range map[string]driver.Conn{"default": client(t), "analyst": analyst(t)} {
		rows, err := conn.Query(testContext(t), "SELECT currentUser(), upper(user()), 'currentUser()', "+
			"currentUser() AS me WHERE me = currentUser()")
		if err != nil {
			t.Fatal(name, err)
		}
		var a, b, c, d string
		if !rows.Next() || rows.Scan(&a, &b, &c, &d) != nil || a != name || b != strings.ToUpper(name) ||
			c != "currentUser()" || d != name {
			t.Errorf("%s: %q %q %q %q %v", name, a, b, c, d, rows.Err())
		}
		if got := strings.Join(rows.Columns(), "|"); got != "currentUser()|upper(user())|'currentUser()'|me" {
			t.Errorf("%s: columns %s", name, got)
		}
		_ = rows.Close()
		if _, _, text := callAs(t, name, map[string]string{"default": password, "analyst": analystPassword}[name],
			"POST", nil, "SELECT currentUser()"); text != name+"\n" {
			t.Errorf("%s over HTTP: %q", name, text)
		}
	}
}

// TestDropDefault: what every session needs stays, however it is named, and other
// databases can be dropped.
func TestDropDefault(t *testing.T) {
	conn := client(t)
	ctx := ch.Context(testContext(t), ch.WithParameters(ch.Parameters{"d": "default"}))
	for _, sql := range []string{
		"DROP DATABASE default", "drop /* ! */ database if exists `default` sync", `DROP DATABASE "default"`,
		"DETACH DATABASE default",
		"RENAME DATABASE default TO other", "DROP DATABASE {d:Identifier}",
	} {
		var e *ch.Exception
		if err := conn.Exec(ctx, sql); !errors.As(err, &e) || !strings.Contains(e.Message, "Database default") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for _, session := range []string{"", "dropping"} {
		params := values("session_id", session, "param_d", "default")
		if status, _, text := call(t, "POST", params, "DROP DATABASE {d:Identifier}"); status != 501 ||
			!strings.Contains(text, "Database default") {
			t.Errorf("over HTTP: %d %s", status, text)
		}
	}
	exec(t, conn, "CREATE DATABASE IF NOT EXISTS dropped")
	exec(t, conn, "DROP DATABASE dropped")
	if err := client(t).Ping(testContext(t)); err != nil {
		t.Error("afterwards:", err)
	}
}

// TestInsertIntoFunction: what is stored is what the client has sent, in the text
// or in blocks, and nothing else.
func TestInsertIntoFunction(t *testing.T) {
	conn := client(t)
	for _, partition := range []string{"", " PARTITION BY s"} {
		for _, end := range []string{" FORMAT CSV\na\n", " VALUES ('a')", " SELECT 'a'"} {
			path := filepath.Join(t.TempDir(), "out.csv")
			into := path
			if partition != "" {
				into = strings.Replace(path, "out", "{_partition_id}", 1)
				path = strings.Replace(path, "out", "a", 1)
			}
			exec(t, conn, "INSERT INTO FUNCTION file('"+into+"', CSV, 's String')"+partition+end)
			if stored, err := os.ReadFile(path); string(stored) != "\"a\"\n" {
				t.Errorf("%s%s: %q, %v", partition, end, stored, err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "blocks.csv")
	batch, err := conn.PrepareBatch(testContext(t), "INSERT INTO FUNCTION file('"+path+"', CSV, 's String, n UInt8')")
	if err == nil {
		err = errors.Join(batch.Append("a", uint8(0)), batch.Append("b", uint8(0)), batch.Send())
	}
	if stored, _ := os.ReadFile(path); err != nil || string(stored) != "\"a\",0\n\"b\",0\n" {
		t.Errorf("in blocks: %q, %v", stored, err)
	}
}

// TestExternalTable: a query has the tables that come with it, and the next one
// has them no more.
func TestExternalTable(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		table, err := ext.NewTable("sent", ext.Column("n", "UInt64"), ext.Column("at", "DateTime('Asia/Tokyo')"),
			ext.Column("s", "LowCardinality(String)"))
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(1000) {
			if err := table.Append(n, time.Unix(int64(n), 0), "x"); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			var n uint64
			ctx := ch.Context(testContext(t), ch.WithExternalTable(table))
			err := conn.QueryRow(ctx, "SELECT sum(n) + count(s) FROM sent WHERE toUnixTimestamp(at) = n").Scan(&n)
			if err != nil || n != 499_500+1000 {
				t.Error(n, err)
			}
		}
		var e *ch.Exception
		if err := conn.Exec(testContext(t), "SELECT * FROM sent"); !errors.As(err, &e) || e.Code != 60 {
			t.Errorf("afterwards: %v", err)
		}
	})
}

package clickhouse_test

import (
	"strings"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// logged reads the query log of a statement, an event a line.
func logged(t *testing.T, id, columns string) []string {
	t.Helper()
	status, _, text := call(t, "POST", values("param_id", id),
		"SELECT "+columns+" FROM system.query_log WHERE query_id = {id:String} ORDER BY type FORMAT TSVRaw")
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func wantLogged(t *testing.T, id, columns string, want ...string) {
	t.Helper()
	got := logged(t, id, columns)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s of %s:\n%s\nwant\n%s", columns, id, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestQueryLogOverHTTP: system.query_log has the beginning and the end of each
// statement, as it was sent, by the time it is answered.
func TestQueryLogOverHTTP(t *testing.T) {
	const create = "CREATE OR REPLACE TABLE noted (a UInt32) ENGINE = MergeTree ORDER BY a"
	const insert = "INSERT INTO FUNCTION null('a UInt8') FORMAT TSV"
	for id, c := range map[string]struct {
		query, body string
		logged      string
		want        string // type, kind, exception code, read rows, written rows, result rows
	}{
		"log-create": {"", create, create, "QueryFinish\tCreate\t0\t0\t0\t0"},
		"log-select": {
			"", " SELECT * FROM numbers(7) FORMAT JSON;", "SELECT * FROM numbers(7) FORMAT JSON",
			"QueryFinish\tSelect\t0\t7\t0\t7",
		},
		"log-error":  {"", "SELECT throwIf(1)", "SELECT throwIf(1)", "ExceptionWhileProcessing\tSelect\t395\t0\t0\t0"},
		"log-insert": {insert, "1\n2\n", insert + "\\n", "QueryFinish\tInsert\t0\t0\t2\t2"},
		"log-unread": {"", "SELECT FROM WHERE", "SELECT FROM WHERE", "ExceptionWhileProcessing\tSelect\t62\t0\t0\t0"},
	} {
		params := values("query_id", id, "log_comment", "why")
		if c.query != "" {
			params.Set("query", c.query)
		}
		call(t, "POST", params, c.body)
		wantLogged(t, id, "replaceAll(query, '\n', '\\\\n')", c.logged, c.logged)
		got := logged(t, id, "type, query_kind, exception_code, read_rows, written_rows, result_rows")
		if len(got) != 2 || !strings.HasPrefix(got[0], "QueryStart\t") || got[1] != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", id, strings.Join(got, "\n"), c.want)
		}
		const about = "user, initial_user, initial_query_id, address, interface, http_user_agent, " +
			"log_comment, Settings['log_comment'], event_time >= now() - 60, " +
			"query_start_time_microseconds <= event_time_microseconds"
		line := "default\tdefault\t" + id + "\t::ffff:127.0.0.1\t2\tGo-http-client/1.1\twhy\twhy\t1\t1"
		wantLogged(t, id, about, line, line)
	}
	call(t, "POST", values("query_id", "log-none", "log_queries", "0"), "SELECT 1")
	wantLogged(t, "log-none", "type", "")
}

// TestQueryLogOverNative: the log has the client's own name of itself and of its
// statement.
func TestQueryLogOverNative(t *testing.T) {
	opt := options(ch.CompressionNone)
	opt.ClientInfo.Products = append(opt.ClientInfo.Products, struct{ Name, Version string }{"noter", "7"})
	conn := open(t, opt)
	exec(t, conn, "CREATE OR REPLACE TABLE noted_rows (a UInt32) ENGINE = MergeTree ORDER BY a")
	defer exec(t, conn, "DROP TABLE noted_rows")
	ctx := ch.Context(testContext(t), ch.WithQueryID("log-native"))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO noted_rows (a)")
	if err != nil {
		t.Fatal(err)
	}
	for a := range uint32(3) {
		if err := batch.Append(a); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	const columns = "type, query_kind, written_rows, interface, user, startsWith(client_name, 'noter/7 clickhouse-go/')"
	wantLogged(t, "log-native", columns,
		"QueryStart\tInsert\t0\t1\tdefault\t1", "QueryFinish\tInsert\t3\t1\tdefault\t1")

	ctx = ch.Context(testContext(t), ch.WithQueryID("log-native-select"))
	var sum uint64
	if err := conn.QueryRow(ctx, "SELECT sum(number) FROM numbers(10)").Scan(&sum); err != nil {
		t.Fatal(err)
	}
	wantLogged(t, "log-native-select", "type, query, read_rows, result_rows",
		"QueryStart\tSELECT sum(number) FROM numbers(10)\t0\t0",
		"QueryFinish\tSELECT sum(number) FROM numbers(10)\t10\t1")

	var id string // that the server gives it
	if err := conn.QueryRow(testContext(t), "SELECT queryID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	wantLogged(t, id, "type, query", "QueryStart\tSELECT queryID()", "QueryFinish\tSELECT queryID()")

	ctx = ch.Context(testContext(t), ch.WithQueryID("log-native-error"))
	if err := conn.Exec(ctx, "DROP TABLE nothing_there"); err == nil {
		t.Error("a table that is not there was dropped")
	}
	wantLogged(t, "log-native-error", "type, exception_code, exception LIKE '%nothing_there%'",
		"QueryStart\t0\t0", "ExceptionWhileProcessing\t60\t1")
}

// TestQueryLogIsPrivate: what analysts ask is in the log, and they cannot read it.
func TestQueryLogIsPrivate(t *testing.T) {
	for name, sql := range map[string]string{
		"table": "SELECT query FROM system.query_log", "quoted": "SELECT query FROM `system`.`query_log`",
		"merge": "SELECT query FROM merge('system', 'query_log')", "definition": "SHOW CREATE TABLE system.query_log",
		"in": "SELECT 1 WHERE 'x' IN system.query_log", "use": "USE system",
	} {
		id := "log-" + name
		status, _, text := callAs(t, "analyst", analystPassword, "POST", values("query_id", id), sql)
		if status == 200 || !strings.Contains(text, "ACCESS_DENIED") {
			t.Errorf("%s: %d %s", sql, status, text)
		}
		wantLogged(t, id, "type, user, exception_code, query",
			"QueryStart\tanalyst\t0\t"+sql, "ExceptionWhileProcessing\tanalyst\t497\t"+sql)
	}
}

// TestQueryLogComesBack: a log that somebody drops begins anew, and one that
// somebody reads through a view is up to date after SYSTEM FLUSH LOGS.
func TestQueryLogComesBack(t *testing.T) {
	call(t, "POST", values("query_id", "log-before"), "SELECT 1")
	if status, _, text := call(t, "POST", nil, "DROP TABLE system.query_log SYNC"); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	call(t, "POST", values("query_id", "log-after"), "SELECT 1")
	wantLogged(t, "log-after", "type", "QueryStart", "QueryFinish")
	wantLogged(t, "log-before", "type", "")

	conn := client(t)
	exec(t, conn, "CREATE OR REPLACE VIEW through AS SELECT * FROM system.query_log")
	defer exec(t, conn, "DROP VIEW through")
	call(t, "POST", values("query_id", "log-view"), "SELECT 1")
	exec(t, conn, "SYSTEM FLUSH LOGS")
	if n := count(t, conn, "SELECT count() FROM through WHERE query_id = 'log-view'"); n != 2 {
		t.Errorf("through a view there are %d events", n)
	}
}

// TestQueryLogOfMany: events go to the table without anybody asking for it, once
// there are many.
func TestQueryLogOfMany(t *testing.T) {
	conn := client(t)
	exec(t, conn, "CREATE OR REPLACE VIEW noted_many AS SELECT * FROM system.query_log")
	defer exec(t, conn, "DROP VIEW noted_many")
	for deadline := time.Now().Add(time.Minute); ; {
		ctx := ch.Context(testContext(t), ch.WithQueryID("log-many"))
		for range 100 {
			if err := conn.Exec(ctx, "SELECT 1"); err != nil {
				t.Fatal(err)
			}
		}
		if count(t, conn, "SELECT count() FROM noted_many WHERE query_id = 'log-many'") > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no event is in the table")
		}
	}
}

// TestQueryLogKeepsTheNewest: the table stays within its bound, whatever it is
// filled with.
func TestQueryLogKeepsTheNewest(t *testing.T) {
	conn := client(t)
	exec(t, conn, "SELECT 1 FROM system.query_log LIMIT 0") // so that it is there
	for range 8 {
		exec(t, conn, "INSERT INTO system.query_log (query) SELECT repeat('x', 16384) FROM numbers(400)")
	}
	call(t, "POST", values("query_id", "log-newest"), "SELECT 1")
	wantLogged(t, "log-newest", "type", "QueryStart", "QueryFinish")
	const bytes = "SELECT assumeNotNull(total_bytes) FROM system.tables WHERE database = 'system' AND name = " +
		"'query_log'"
	if n := count(t, conn, bytes); n > 24<<20 {
		t.Errorf("the table has %d bytes", n)
	}
	exec(t, conn, "TRUNCATE TABLE system.query_log")
}

package clickhouse_test

import (
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

func analyst(t *testing.T) driver.Conn {
	opt := options(ch.CompressionLZ4)
	opt.Auth.Username, opt.Auth.Password = "analyst", analystPassword
	return open(t, opt)
}

func prepareSecrets(t *testing.T) {
	conn := client(t)
	for _, sql := range []string{
		"CREATE OR REPLACE TABLE facts (a UInt32, s String) ENGINE = MergeTree ORDER BY a",
		"INSERT INTO facts SELECT number, toString(number % 7) FROM numbers(1000)",
		"CREATE OR REPLACE VIEW facts_view AS SELECT s, count() AS n FROM facts GROUP BY s",
		"CREATE OR REPLACE VIEW file_view AS SELECT * FROM file('/etc/hostname', 'LineAsString')",
	} {
		exec(t, conn, sql)
	}
}

func TestReaderMay(t *testing.T) {
	prepareSecrets(t)
	for _, sql := range []string{
		"SELECT 1",
		"SELECT count(), sum(a), uniqIf(s, a > 3), quantilesTDigestIf(0.5, 0.9)(a, a > 1), groupArray(3)(s) FROM facts",
		"WITH x AS (SELECT a FROM facts) SELECT * FROM x WHERE a IN (SELECT number FROM numbers(10)) ORDER BY a LIMIT 3",
		"SELECT s, n FROM facts_view ORDER BY n DESC LIMIT 2 FORMAT JSON",
		"SELECT uniqMerge(u) FROM (SELECT uniqState(s) AS u FROM facts)",
		"SELECT a, row_number() OVER (PARTITION BY s ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM facts LIMIT 5",
		"SELECT toStartOfHour(now('UTC')), toDate('2026-01-01') + INTERVAL 1 DAY, CASE WHEN 1 THEN 'a' ELSE 'b' END, arrayMap(x -> x + 1, [1, 2])[1]",
		"SELECT * EXCEPT (a) FROM facts ARRAY JOIN [1, 2] AS z LIMIT 1",
		"SELECT 1 UNION ALL SELECT 2",
		"SELECT f.a FROM facts AS f INNER JOIN millrace.facts AS g USING (a) LIMIT 1 -- joined",
		"SHOW TABLES", "SHOW DATABASES", "SHOW CREATE TABLE facts", "SHOW COLUMNS FROM facts",
		"DESCRIBE TABLE facts", "DESCRIBE (SELECT 1 AS a)", "EXISTS TABLE facts", "EXPLAIN SELECT count() FROM facts",
		"SELECT name FROM system.tables WHERE database = 'millrace'",
		"SET max_threads = 1, join_use_nulls = 1", "SET readonly = 1", "USE millrace",
		"SELECT 'drop table; INSERT INTO' AS `file`",
	} {
		status, _, text := callAs(t, "analyst", analystPassword, "POST", nil, sql)
		if status != 200 {
			t.Errorf("%s: %d %s", sql, status, text)
		}
		if err := analyst(t).Exec(testContext(t), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestReaderMayNot(t *testing.T) {
	prepareSecrets(t)
	for _, sql := range []string{
		"INSERT INTO facts VALUES (1, 'x')", "INSERT INTO facts SELECT 1, 'x'", "INSERT INTO facts FORMAT CSV\n1,2",
		"CREATE TABLE mine (a UInt8) ENGINE = Memory", "CREATE TEMPORARY TABLE mine (a UInt8)", "DROP TABLE facts",
		"TRUNCATE TABLE facts", "ALTER TABLE facts DELETE WHERE 1", "DELETE FROM facts WHERE 1", "OPTIMIZE TABLE facts",
		"RENAME TABLE facts TO others", "ATTACH TABLE facts", "SYSTEM STOP MERGES", "KILL QUERY WHERE 1", "SHOW PROCESSLIST",
		"BACKUP TABLE facts TO File('/tmp/x')", "CREATE FUNCTION f AS x -> x", "SYSTEM SHUTDOWN", "GRANT SELECT ON *.* TO x",
		"SELECT 1; DROP TABLE facts", "SELECT 1 /* */; -- \nDROP TABLE facts",
		"EXPLAIN AST SELECT 1; DROP TABLE facts",
		"SELECT file('/etc/hostname')", "SELECT fIlE('/etc/hostname')", "SELECT `file`('/etc/hostname')",
		"SELECT * APPLY(file) FROM (SELECT '/etc/hostname' AS a)",
		"SELECT * APPLY(x -> file(x)) FROM (SELECT '/etc/hostname' AS a)",
		"SELECT sum(1) OVER w FROM facts WINDOW w AS (ORDER BY file('/etc/hostname'))",
		"SELECT arrayMap(x -> file(x), ['/etc/hostname'])",
		"WITH (SELECT file('/etc/hostname')) AS f SELECT f",
		"SELECT 1 ORDER BY file('/etc/hostname')",
		"SELECT * FROM file('/etc/hostname', 'LineAsString')", "SELECT * FROM view(SELECT * FROM file('/etc/hostname', 'LineAsString'))",
		"DESCRIBE file('/etc/hostname', 'LineAsString')", "DESCRIBE TABLE file('/etc/hostname')",
		"SELECT * FROM default.`/etc/hostname`", "SELECT * FROM `default`.`/etc/hostname`", "DESCRIBE TABLE default.`/etc/hostname`",
		"SELECT 1 IN default.`/etc/hostname`", "SHOW CREATE TABLE default.`/etc/hostname`", "EXISTS TABLE default.`/etc/hostname`",
		"SELECT hasColumnInTable('default', '/etc/hostname', 'c1')", "SELECT * FROM merge('default', '.*')",
		"USE default", "USE system",
		"SELECT * FROM file_view",
		"SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", "SELECT * FROM remote('127.0.0.1:1', 'system', 'one')",
		"SELECT * FROM s3('http://127.0.0.1:1/x', 'CSV')", "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
		"SELECT * FROM executable('x', 'CSV', 'a String')", "SELECT * FROM sqlite('/tmp/x', 'y')", "SELECT * FROM cluster('x', 'system', 'one')",
		"SELECT * FROM dictionary('x')", "SELECT * FROM input('a String')", "SELECT * FROM loop(millrace.facts)", "SELECT * FROM redis('127.0.0.1:1', 'k', 'k String')",
		"SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')", "SELECT * FROM mongodb('127.0.0.1:1', 'a', 'b', 'c', 'd', 'e String')",
		"SELECT * FROM odbc('x', 'y', 'z')", "SELECT * FROM azureBlobStorage('x')", "SELECT * FROM iceberg('http://127.0.0.1:1/')", "SELECT * FROM mergeTreeIndex(millrace, facts)",
		"SELECT * FROM system.users", "SELECT * FROM system.named_collections", "SELECT * FROM system.server_settings", "SELECT * FROM system.stack_trace",
		"SELECT * FROM system.disks", "SELECT * FROM system.clusters", "SELECT * FROM system.query_cache", "SELECT * FROM `system`.`processes`", "SELECT * FROM SYSTEM.processes",
		"SELECT * FROM (SELECT * FROM system.processes)", "SELECT * FROM facts WHERE a IN system.processes", "SELECT 1 AS `a (alias b)\nFunction`, file('/etc/hostname')",
		"SELECT file('/etc/hostname') AS `x) (alias y`", "SELECT `sum (alias x)`(1)", "WITH file AS f SELECT f('/etc/hostname')",
		"SELECT 1 SETTINGS max_memory_usage = 0", "SELECT 1 SETTINGS max_execution_time = 0", "SELECT length(groupArray(toString(number))) FROM numbers(1000000000)",
		"SELECT * FROM system.processes", "SELECT * FROM system.certificates", "SELECT 1 INTO OUTFILE '/tmp/x'",
		"SELECT * FROM facts SETTINGS readonly = 0", "SET readonly = 0, max_execution_time = 0, format_schema = '/etc/passwd'",
		"SET format_schema = '/etc/passwd:x'", "SELECT aiGenerate('x')", "SELECT catboostEvaluate('/tmp/x', 1)",
		"SELECT no_such_function(1)", "EXPLAIN TABLE OVERRIDE mysql('127.0.0.1:1', 'a', 'b', 'c', 'd') PARTITION BY tuple()",
		"EXPLAIN SELECT * FROM file('/etc/hostname', 'LineAsString')", "VALUES (1)", "nonsense",
	} {
		status, _, text := callAs(t, "analyst", analystPassword, "POST", nil, sql)
		if status == 200 {
			t.Errorf("HTTP: %s: %s", sql, text)
		}
		if err := analyst(t).Exec(testContext(t), sql); err == nil {
			t.Errorf("native: %s", sql)
		}
	}
	if got := count(t, client(t), "SELECT count() FROM facts"); got != 1000 {
		t.Error(got, "facts left")
	}
	for _, p := range []string{"default./etc/hostname", "default.`/etc/hostname`"} {
		status, _, text := callAs(t, "analyst", analystPassword, "POST", values("param_t", p), "SELECT * FROM {t:Identifier}")
		if status == 200 {
			t.Errorf("parameter %s: %s", p, text)
		}
	}
	for name, value := range map[string]string{"format_schema": "x", "database": "default", "async_insert": "1"} {
		if status, _, _ := callAs(t, "analyst", analystPassword, "POST", values(name, value), "SELECT 1"); status == 200 {
			t.Errorf("parameter %s=%s", name, value)
		}
	}
	if status, _, text := callAs(t, "analyst", analystPassword, "POST", values("database", "default"), "SELECT * FROM `/etc/hostname`"); status == 200 {
		t.Error(text)
	}
}

func TestReaderLimits(t *testing.T) {
	ask := func(name string, params ...string) string {
		_, _, text := callAs(t, "analyst", analystPassword, "POST", values(params...), "SELECT value FROM system.settings WHERE name = '"+name+"'")
		return strings.TrimSpace(text)
	}
	for _, c := range [][3]string{
		{"max_execution_time", "0", "120"},
		{"max_execution_time", "7", "7"},
		{"max_execution_time", "9000", "120"},
		{"readonly", "0", "1"},
		{"max_memory_usage", "0", "536870912"},
	} {
		if got := ask(c[0], c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestReaderSession(t *testing.T) {
	opt := options(ch.CompressionNone)
	opt.Auth.Username, opt.Auth.Password, opt.MaxOpenConns = "analyst", analystPassword, 1
	conn := open(t, opt)
	exec(t, conn, "SET max_threads = 3, log_comment = 'it\\'s; x'")
	if got := count(t, conn, "SELECT toUInt64(getSetting('max_threads') + (getSetting('log_comment') = 'it\\'s; x'))"); got != 4 {
		t.Error(got)
	}
	exec(t, conn, "USE INFORMATION_SCHEMA")
	if got := count(t, conn, "SELECT count() FROM schemata WHERE schema_name = 'millrace'"); got != 1 {
		t.Error(got)
	}
}

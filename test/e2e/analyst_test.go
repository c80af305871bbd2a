package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// testAnalysts: the login of analysts reads no file and no secret, whatever it
// says and over which protocol: not by a function's name as an argument, not by
// expressions in a structure or in SHOW, and not by a time zone.
func testAnalysts(t *testing.T, s *server) {
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{s.ports.ClickHouse},
		Auth: clickhouse.Auth{Database: "millrace", Username: "analyst"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, file := range []string{"/proc/self/environ", "/etc/passwd", s.data + "/postgres/password"} {
		for _, attack := range []string{
			"SELECT file('%s')", "SELECT arrayMap(file, ['%s'])", "SELECT * APPLY(file) FROM (SELECT '%s' AS a)",
			"SELECT sum(1) OVER w FROM events WINDOW w AS (ORDER BY file('%s'))",
			"SELECT a FROM values('x UInt8, a String ALIAS file(''%s'')', (1))",
			"SELECT a FROM generateRandom('x UInt8, a String ALIAS file(''%s'')') LIMIT 1",
			"SHOW TABLES WHERE toUInt64(file('%s')) = 0", "SHOW DICTIONARIES WHERE toUInt64(file('%s')) = 0",
			"SHOW COLUMNS FROM events LIMIT toUInt64(file('%s'))",
			"SHOW INDEXES FROM events WHERE toUInt64(file('%s')) = 0", "SELECT * FROM default.`%s`",
			"SELECT * FROM file('%s', 'LineAsString')",
			"SELECT hasColumnInTable('default', '%s', 'c1')", "SELECT toTimezone(now(), 'file:%s')",
			"SELECT now()::DateTime('file:%s')", "EXPLAIN SYNTAX run_query_tree_passes = 1 SELECT file('%s')",
		} {
			refuses(t, s, conn, fmt.Sprintf(attack, file))
		}
	}
	for _, attack := range []string{
		"SELECT getServerSetting('path')", "SELECT * FROM system.processes",
		"SHOW TABLES WHERE name IN (SELECT query FROM system.processes)", "SHOW PROCESSLIST",
		"SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", "SELECT * FROM executable('id', 'CSV', 'a String')",
		"SELECT 1 FORMAT JSON SETTINGS max_execution_time = 0",
	} {
		refuses(t, s, conn, attack)
	}
	if got := s.ask("SELECT count() >= 0, arrayMap(x -> upper(x), ['a'])[1], max(e) OVER w IS NULL FROM (SELECT " +
		"max(seq) AS e FROM events) WINDOW w AS ()"); !strings.HasPrefix(got, "1\tA") {
		t.Errorf("an ordinary question is answered by %q", got)
	}
}

// refuses wants the statement of an analyst to be refused over both protocols, by
// an answer that tells no secret.
func refuses(t *testing.T, s *server, conn driver.Conn, sql string) {
	t.Helper()
	if status, _, answer := s.sql("analyst", sql); status < http.StatusBadRequest ||
		strings.Contains(answer, attackSecret) || strings.Contains(answer, "root:") {
		t.Errorf("HTTP: %s: status %d: %.200s", sql, status, answer)
	}
	var e *clickhouse.Exception
	if err := conn.Exec(t.Context(), sql); !errors.As(err, &e) || strings.Contains(e.Message, attackSecret) ||
		strings.Contains(e.Message, "root:") {
		t.Errorf("native: %s: %v", sql, err)
	}
}

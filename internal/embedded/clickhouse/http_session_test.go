package clickhouse_test

import (
	"net/url"
	"strings"
	"testing"
)

// within are the parameters of a request in a session.
func within(id string, pairs ...string) url.Values {
	v := values(pairs...)
	v.Set("session_id", id)
	return v
}

func TestHTTPSession(t *testing.T) {
	const id = "TestHTTPSession"
	ask := func(sql string, pairs ...string) string {
		t.Helper()
		status, _, text := call(t, "POST", within(id, pairs...), sql)
		if status != 200 {
			t.Errorf("%s: %d %s", sql, status, text)
		}
		return text
	}
	ask("CREATE TEMPORARY TABLE mine (x UInt64)", "session_timeout", "30")
	ask("INSERT INTO mine VALUES (1), (2)")
	ask("SET max_block_size = 777")
	if got := ask("SELECT sum(x), getSetting('max_block_size') FROM mine"); got != "3\t777\n" {
		t.Error(got)
	}
	if got := ask("SELECT getSetting('max_block_size')", "max_block_size", "5") +
		ask("SELECT getSetting('max_block_size')"); got != "5\n777\n" {
		t.Errorf("settings of a request: %s", got)
	}
	if got := ask("SELECT currentDatabase()", "database", "system") +
		ask("SELECT currentDatabase()"); got != "system\nmillrace\n" {
		t.Errorf("the database of a request: %s", got)
	}
	ask("USE system")
	if got := ask("SELECT currentDatabase()"); got != "system\n" {
		t.Errorf("USE: %s", got)
	}
	if status, _, _ := call(t, "POST", nil, "SELECT * FROM mine"); status != 404 {
		t.Error("a temporary table is seen without its session")
	}
	if status, _, _ := call(t, "POST", within("another"), "SELECT * FROM mine"); status != 404 {
		t.Error("a temporary table is seen in another session")
	}
	ask("SELECT 1", "session_check", "1", "close_session", "1")
	if status, header, text := call(t, "POST", within(id, "session_check", "1"), "SELECT 1"); status != 404 ||
		header.Get("X-ClickHouse-Exception-Code") != "372" {
		t.Errorf("a session that was closed: %d %s", status, text)
	}
	if status, header, _ := call(t, "POST", within(id, "session_timeout", "3601"), "SELECT 1"); status == 200 ||
		header.Get("X-ClickHouse-Exception-Code") != "374" {
		t.Errorf("a long timeout: %d", status)
	}
}

// TestHTTPSessionGet: GET only reads, and leaves the session as it is.
func TestHTTPSessionGet(t *testing.T) {
	const id = "TestHTTPSessionGet"
	get := func(sql string) (int, string) {
		status, _, text := call(t, "GET", within(id, "query", sql), "")
		return status, text
	}
	call(t, "POST", within(id), "CREATE TEMPORARY TABLE mine (x UInt64)")
	for _, sql := range []string{
		"INSERT INTO mine VALUES (1)", "DROP TABLE mine",
		"WITH 1 AS a INSERT INTO mine SELECT a", "INSERT INTO mine SELECT 1",
	} {
		if status, text := get(sql); status != 500 || !strings.HasPrefix(text, "Code: 164.") {
			t.Errorf("%s: %d %s", sql, status, text)
		}
	}
	for _, sql := range []string{"SELECT count() FROM mine", "WITH 0 AS a SELECT a", "EXISTS TABLE nothing"} {
		if status, text := get(sql); status != 200 || text != "0\n" {
			t.Errorf("%s: %d %s", sql, status, text)
		}
	}
	if status, _, text := call(t, "POST", within(id), "INSERT INTO mine VALUES (1)"); status != 200 {
		t.Errorf("after GET: %d %s", status, text)
	}
}

// TestHTTPSessionLock: one request at a time uses a session.
func TestHTTPSessionLock(t *testing.T) {
	const id = "TestHTTPSessionLock"
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		for status := 0; status != 200; { // the other request may be first
			status, _, _ = call(t, "POST", within(id), "SELECT sleep(1)")
		}
	}()
	for {
		status, header, text := call(t, "POST", within(id), "SELECT 1")
		if status != 200 {
			if header.Get("X-ClickHouse-Exception-Code") != "373" {
				t.Errorf("%d %s", status, text)
			}
			break
		}
		select {
		case <-busy:
			t.Fatal("two requests shared a session")
		default:
		}
	}
	<-busy
	if status, _, text := call(t, "POST", within(id), "SELECT 1"); status != 200 {
		t.Errorf("afterwards: %d %s", status, text)
	}
}

// TestHTTPSessionOfAnalyst: analysts have sessions of their own, in which they may
// do no more than without.
func TestHTTPSessionOfAnalyst(t *testing.T) {
	prepareSecrets(t)
	const id = "TestHTTPSessionOfAnalyst"
	ask := func(sql string, pairs ...string) (int, string) {
		status, _, text := callAs(t, "analyst", analystPassword, "POST", within(id, pairs...), sql)
		return status, text
	}
	call(t, "POST", within(id), "CREATE TEMPORARY TABLE mine (x UInt64)")
	if status, text := ask("SELECT * FROM mine"); status != 404 {
		t.Errorf("the session of another login: %d %s", status, text)
	}
	if status, text := ask("SET max_threads = 3"); status != 200 {
		t.Errorf("SET: %d %s", status, text)
	}
	if _, got := ask("SELECT getSetting('max_threads')"); got != "3\n" {
		t.Errorf("what was set is %s", got)
	}
	for _, sql := range append(statements(t, "attacks.sql"), "SET log_comment = '"+strings.Repeat("x", 64<<10)+"'",
		"USE default") {
		if status, text := ask(sql); status == 200 {
			t.Errorf("%.100s: %s", sql, text)
		}
	}
	for _, pairs := range [][]string{
		{"readonly", "0"},
		{"database", "default"},
		{"max_memory_usage", "0"},
		{"max_execution_time", "0"},
	} {
		ask("SELECT 1", pairs...)
	}
	if _, got := ask("SELECT getSetting('readonly'), getSetting('max_memory_usage'), " +
		"getSetting('max_execution_time'), currentDatabase()"); got != "1\t536870912\t120\tmillrace\n" {
		t.Errorf("the session has %s", got)
	}
}

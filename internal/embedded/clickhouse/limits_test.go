package clickhouse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// nested is a statement whose formatted text would have 2^n parts.
func nested(n int) string {
	return "SELECT " + strings.Repeat("(", n) + "1" + strings.Repeat(" BETWEEN 1 AND 2)", n)
}

// soon fails a test that takes longer than anything here may.
func soon(t *testing.T, what string, begin time.Time) {
	t.Helper()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("%s took %s", what, took)
	}
}

// TestNestedStatement: what takes the engine for ever to read is refused to every
// login, and holds no slot.
func TestNestedStatement(t *testing.T) {
	const tooDeep = 306
	begin := time.Now()
	chain := "SELECT 1" + strings.Repeat(" BETWEEN 1 AND 2", 40)
	for _, sql := range []string{
		nested(40), chain, "EXPLAIN AST " + nested(40),
		"SELECT " + strings.Repeat("(", 5000),
	} {
		for _, user := range []struct{ name, key string }{{"analyst", analystPassword}, {"default", password}} {
			for range 2 * reads {
				status, header, text := callAs(t, user.name, user.key, http.MethodPost, nil, sql)
				if code := header.Get("X-ClickHouse-Exception-Code"); code != fmt.Sprint(tooDeep) {
					t.Fatalf("%s: %.20s…: status %d, code %s: %.200s", user.name, sql, status, code, text)
				}
			}
			opt := options(driver.CompressionLZ4)
			opt.Auth.Username, opt.Auth.Password = user.name, user.key
			var e *driver.Exception
			if err := open(t, opt).Exec(testContext(t), sql); !errors.As(err, &e) || e.Code != tooDeep {
				t.Errorf("%s: %.20s… over the native protocol: %v", user.name, sql, err)
			}
		}
	}
	soon(t, "refusing", begin)
	for _, sql := range []string{nested(8), "SELECT " + strings.Repeat("1 BETWEEN 1 AND 2 AND ", 100) + "1"} {
		if status, _, text := callAs(t, "analyst", analystPassword, http.MethodPost, nil,
			sql); status != http.StatusOK {
			t.Errorf("%.20s…: status %d: %.200s", sql, status, text)
		}
	}
}

// TestGreedyStatement: the judge's own statements have a limit of memory.
func TestGreedyStatement(t *testing.T) {
	// 12 BETWEENs make 4,096 of the name.
	wide := strings.Replace(nested(12), "1 BETWEEN", strings.Repeat("x", 60_000)+" BETWEEN", 1)
	status, _, text := callAs(t, "analyst", analystPassword, http.MethodPost, nil, wide)
	if status == http.StatusOK || !strings.Contains(text, "MEMORY_LIMIT_EXCEEDED") {
		t.Errorf("status %d: %.200s", status, text)
	}
	if status, _, text := callAs(t, "analyst", analystPassword, http.MethodPost, nil,
		"SELECT 1"); status != http.StatusOK {
		t.Errorf("afterwards: status %d: %.200s", status, text)
	}
}

// TestChGoCancels: ch-go sends a cancel that is none, and closes.
func TestChGoCancels(t *testing.T) {
	watch := client(t)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	conn, err := ch.Dial(ctx, ch.Options{
		Address: server.Addr().String(), Database: "millrace", User: "default",
		Password: password,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ended := make(chan error, 1)
	go func() {
		var sum proto.ColUInt64
		ended <- conn.Do(ctx, ch.Query{Body: fmt.Sprintf("SELECT sum(sipHash64(number)) AS s FROM "+
			"numbers(10000000000000) WHERE '%s' != ''", "ch-go-mark"), Result: proto.Results{{Name: "s", Data: &sum}}})
	}()
	await(t, watch, "ch-go-mark", 1)
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	await(t, watch, "ch-go-mark", 0)
}

// TestUnexpectedBytes: whatever a client sends while its statement runs cancels
// it, and the client is told so.
func TestUnexpectedBytes(t *testing.T) {
	watch := client(t)
	for mark, sent := range map[string][]byte{
		"odd-ping": {native.ClientPing}, "odd-hello": {0, native.ClientCancel}, "odd-data": {native.ClientData, 0},
		"odd-noise": {0xff, 0xfe},
	} {
		for _, sql := range []string{computing, sending} {
			raw := dial(t, "default", password)
			raw.query(fmt.Sprintf(sql, mark))
			await(t, watch, mark, 1)
			raw.send(sent)
			if answer := raw.closed(); !strings.Contains(string(answer), "UNEXPECTED_PACKET_FROM_CLIENT") {
				t.Errorf("%s: %.200q", mark, answer[max(0, len(answer)-200):])
			}
			await(t, watch, mark, 0)
		}
	}
}

// TestCancelledConnectionGoesOn: after a cancel nothing of the query is left, and
// the connection takes the next one.
func TestCancelledConnectionGoesOn(t *testing.T) {
	watch := client(t)
	for _, sql := range []string{computing, sending} {
		raw := dial(t, "default", password)
		raw.query(fmt.Sprintf(sql, "goes-on"))
		seen := make(chan error, 1)
		go func() {
			answer := bufio.NewReader(raw)
			for last := ""; !strings.HasSuffix(last, "goes on"); {
				next, err := answer.ReadByte()
				if err != nil {
					seen <- err
					return
				}
				last = last[max(0, len(last)-10):] + string(next)
			}
			seen <- nil
		}()
		await(t, watch, "goes-on", 1)
		raw.send([]byte{native.ClientCancel})
		await(t, watch, "goes-on", 0)
		raw.query("SELECT 'goes ' || 'on'")
		if err := <-seen; err != nil {
			t.Error("the next query has no answer:", err)
		}
	}
}

// TestHTTPHangUp: a client that has sent something behind its request, and closes
// the connection, has gone.
func TestHTTPHangUp(t *testing.T) {
	watch := client(t)
	sql := fmt.Sprintf(computing, "http-hangs-up")
	conn, err := net.Dial("tcp", server.HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /?user=default&password=%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		password, len(sql), sql)
	await(t, watch, "http-hangs-up", 1)
	fmt.Fprint(conn, "GET")
	_ = conn.Close()
	await(t, watch, "http-hangs-up", 0)
}

// TestInsertIsCancelled: a client that goes away while the engine inserts its rows
// ends the insert.
func TestInsertIsCancelled(t *testing.T) {
	watch := client(t)
	for _, sql := range []string{
		"CREATE TABLE slow (n UInt64) ENGINE = MergeTree ORDER BY n",
		"CREATE TABLE slow_copy (n UInt64) ENGINE = MergeTree ORDER BY n",
		"CREATE MATERIALIZED VIEW slow_view TO slow_copy AS SELECT n FROM slow WHERE sleepEachRow(0.5) = 0",
	} {
		exec(t, watch, sql)
	}
	defer func() {
		for _, table := range []string{"slow_view", "slow", "slow_copy"} {
			exec(t, watch, "DROP TABLE "+table)
		}
	}()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	batch, err := client(t).PrepareBatch(ctx, "INSERT INTO slow SETTINGS min_insert_block_size_rows = 1, "+
		"log_comment = 'slow-mark'")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 100 { // of half a second each
		if err := errors.Join(batch.Append(uint64(n)), batch.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- batch.Send() }()
	await(t, watch, "slow-mark", 1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	await(t, watch, "slow-mark", 0)
	if n := count(t, watch, "SELECT count() FROM slow"); n >= 100 {
		t.Errorf("%d rows are there", n)
	}
}

// TestRefusedWhileSending: a client that still sends what is refused is told why.
func TestRefusedWhileSending(t *testing.T) {
	const size = 16 << 20
	t.Run("HTTP", func(t *testing.T) {
		for _, user := range []string{"analyst&password=" + analystPassword, "stranger"} {
			conn, err := net.Dial("tcp", server.HTTPAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(conn, "POST /?user=%s&query=INSERT+INTO+t+FORMAT+TSV HTTP/1.1\r\nHost: "+
				"localhost\r\nContent-Length: %d\r\n\r\n", user, size)
			if _, err := conn.Write(make([]byte, size)); err != nil {
				t.Fatal("while sending:", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode < 400 || resp.Header.Get("X-ClickHouse-Exception-Code") == "" {
				t.Errorf("%s: %s, %v: %.200s", user, resp.Status, err, text)
			}
		}
	})
	t.Run("native", func(t *testing.T) {
		w := dialRaw(t)
		w.hello(native.Revision, "default", "wrong")
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal("while sending:", err)
		}
		if answer, err := io.ReadAll(w); err != nil || !strings.Contains(string(answer), "AUTHENTICATION_FAILED") {
			t.Errorf("%v, %.200q", err, answer)
		}
	})
}

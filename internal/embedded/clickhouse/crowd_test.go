package clickhouse_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// most and reads are the limits of the server under test.
const (
	most  = 40
	reads = 4
)

// answer says hello and returns the code of the packet that comes back.
func (w wire) answer(user, key string) proto.ServerCode {
	w.t.Helper()
	w.hello(native.Revision, user, key)
	code, err := proto.NewReader(w).UVarInt()
	if err != nil {
		w.t.Fatalf("%s gets no answer: %v", user, err)
	}
	return proto.ServerCode(code)
}

// TestSilentClients: connections that do not say who they are keep nobody out.
func TestSilentClients(t *testing.T) {
	for range 2 * most {
		dialRaw(t)
	}
	for user, key := range map[string]string{"default": password, "analyst": analystPassword} {
		if code := dialRaw(t).answer(user, key); code != proto.ServerCodeHello {
			t.Errorf("beside silent clients, %s: packet %v", user, code)
		}
	}
}

// TestWaitingAnalysts: connections of analysts that do not ask, or never to the end, give way
// to other analysts, with a reason. They keep nobody else out, and end no query.
func TestWaitingAnalysts(t *testing.T) {
	writer := dial(t, "default", password)
	busy := dial(t, "analyst", analystPassword)
	busy.query("SELECT concat('do', 'ne'), sum(sleepEachRow(0.1)) FROM numbers(25)")
	if _, err := io.ReadFull(busy, make([]byte, 1)); err != nil { // of its progress
		t.Fatal(err)
	}
	var waiting []wire
	for i := range 2 * most {
		w := dial(t, "analyst", analystPassword)
		if i%2 == 0 {
			w.send([]byte{native.ClientQuery})
		}
		waiting = append(waiting, w)
	}
	for _, w := range waiting[:most] {
		w.ends("(TOO_MANY_SIMULTANEOUS_QUERIES)")
	}
	writer.query("SELECT 'beside'")
	writer.await("beside")
	if code := dialRaw(t).answer("default", password); code != proto.ServerCodeHello {
		t.Errorf("beside many analysts: packet %v", code)
	}
	busy.await("done")
}

// begin sends the beginning of a request, and waits until the server asks for its body.
func begin(t *testing.T, user, key, query string) wire {
	t.Helper()
	w := dialAt(t, server.HTTPAddr().String())
	w.send([]byte("POST /?query=" + url.QueryEscape(query) + " HTTP/1.1\r\nHost: localhost\r\nX-ClickHouse-User: " + user +
		"\r\nX-ClickHouse-Key: " + key + "\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"))
	w.await("100 Continue")
	return w
}

// TestSlowBodies: over HTTP, analysts whose bodies never end keep no other analyst out, and
// end no INSERT.
func TestSlowBodies(t *testing.T) {
	http.DefaultClient.CloseIdleConnections() // they give way to new ones, maybe while a request is being sent
	insert := begin(t, "default", password, "INSERT INTO FUNCTION null('n UInt8') FORMAT CSV")
	for range 2 * most {
		begin(t, "analyst", analystPassword, "SELECT")
	}
	if status, _, text := callAs(t, "analyst", analystPassword, "POST", nil, "SELECT 1"); status != http.StatusOK {
		t.Errorf("beside slow bodies: %d %s", status, text)
	}
	insert.send([]byte("1\n"))
	insert.await("HTTP/1.1 200 OK")
}

// TestManyReads: beyond a limit queries of analysts wait, and nobody else does.
func TestManyReads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	ask := func(ctx context.Context, sql string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost,
			"http://"+server.HTTPAddr().String()+"/?user=analyst&password="+analystPassword, strings.NewReader(sql))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	for range reads {
		running.Go(func() { _, _ = ask(ctx, "SELECT sleepEachRow(1) FROM numbers(100) SETTINGS max_block_size = 1") })
		running.Go(func() { _, _ = ask(ctx, "SELECT sum(sleepEachRow(0.5)) FROM numbers(200)") })
	}
	late := make(chan int, 1)
	go func() {
		status, _ := ask(t.Context(), "SELECT 1")
		late <- status
	}()
	for range 5 {
		if status, _, text := call(t, "POST", nil, "SELECT sleep(0.1)"); status != http.StatusOK {
			t.Errorf("one who may write gets %d %s", status, text)
		}
	}
	cancel()
	running.Wait()
	select {
	case status := <-late:
		if status != http.StatusOK {
			t.Errorf("who has waited gets %d", status)
		}
	case <-time.After(time.Minute):
		t.Error("who has waited gets no answer")
	}
}

// TestUnfinishedHeaders: over HTTP, headers that never come keep nobody out, and end
// their connection in time.
func TestUnfinishedHeaders(t *testing.T) {
	slowtest.Mark(t)
	http.DefaultClient.CloseIdleConnections() // they give way to new ones, maybe while a request is being sent
	var last wire
	for range 2 * most {
		last = dialAt(t, server.HTTPAddr().String())
		last.send([]byte("POST / HTTP/1.1\r\nHost: local"))
	}
	if status, _, text := call(t, "POST", nil, "SELECT 1"); status != http.StatusOK {
		t.Errorf("beside unfinished headers: %d %s", status, text)
	}
	if err := last.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(last); err != nil || len(said) > 0 {
		t.Errorf("instead of an end: %q, %v", said, err)
	}
}

// TestLongReads: an analyst's query as long as a book is refused before it is
// held in memory.
func TestLongReads(t *testing.T) {
	status, _, text := callAs(t, "analyst", analystPassword, "POST", nil, "SELECT 1 -- "+strings.Repeat("x", 2<<20))
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %.200s", status, text)
	}
}

// TestOtherSites: what a page of another site sends is not carried out.
func TestOtherSites(t *testing.T) {
	for _, header := range []http.Header{{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}} {
		req, err := http.NewRequestWithContext(testContext(t), http.MethodPost,
			"http://"+server.HTTPAddr().String()+"/?user=default&password="+password, strings.NewReader("CREATE TABLE theirs (a UInt8) ENGINE = Memory"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%v: %s", header, resp.Status)
		}
	}
	if _, _, text := call(t, "POST", nil, "EXISTS TABLE theirs"); text != "0\n" {
		t.Error("the table is there")
	}
}

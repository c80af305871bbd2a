package clickhouse_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/slowtest"
)

var overlong = bytes.Repeat([]byte{0xff}, 11) // a number of more than 64 bits

// refused sends b and more behind it, and reads why the server ends the
// connection: an exception of that name, or any other text. The server closes it in
// order: bytes that it has not read do not break it.
func (w wire) refused(b []byte, want string) {
	w.t.Helper()
	w.send(slices.Concat(b, make([]byte, 1<<20)))
	w.ends(want)
}

func (w wire) ends(want string) {
	w.t.Helper()
	all, err := io.ReadAll(w)
	if err != nil {
		w.t.Errorf("instead of an end: %v", err)
	}
	if !bytes.Contains(all, []byte(want)) {
		w.t.Errorf("%q, want %s", all, want)
	}
}

// packet is a query packet, with changes for what no client would send, and no
// blocks behind it.
func packet(change func(*proto.Query)) []byte {
	q := proto.Query{
		Body: "SELECT 1", Stage: proto.StageComplete,
		Info: proto.ClientInfo{
			ProtocolVersion: native.Revision, Interface: proto.InterfaceTCP,
			Query: proto.ClientQueryInitial,
		},
	}
	change(&q)
	var b proto.Buffer
	q.EncodeAware(&b, native.Revision)
	return b.Buf
}

func hello(revision int, user, key string) []byte {
	var b proto.Buffer
	proto.ClientHello{
		Name: "test", ProtocolVersion: revision, Database: "millrace", User: user,
		Password: key,
	}.Encode(&b)
	return b.Buf
}

// TestReasonsBeforeLogin: a connection that cannot be opened ends with a reason.
func TestReasonsBeforeLogin(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	for name, c := range map[string]struct {
		sent []byte
		want string
	}{
		"noise":          {overlong, "(INCORRECT_DATA)"},
		"another packet": {[]byte{native.ClientPing}, "(INCORRECT_DATA)"},
		"TLS":            {[]byte{0x16, 3, 1, 2, 0, 1}, "(INCORRECT_DATA)"},
		"oversized name": {[]byte{0, 0xff, 0xff, 0xff, 0xff, 0x7f}, "(INCORRECT_DATA)"},
		"old revision":   {hello(54058, "default", password), "(NOT_IMPLEMENTED)"},
		"wrong password": {hello(native.Revision, "default", "wrong"), "(AUTHENTICATION_FAILED)"},
		"wrong addendum": {append(hello(native.Revision, "default", password), overlong...), "(INCORRECT_DATA)"},
		"GET":            {[]byte("GET /ping HTTP/1.1\r\n\r\n"), "HTTP/1.0 400 "},
		"POST":           {[]byte("POST / HTTP/1.1\r\n\r\n"), "HTTP has a port of its own"},
		"HEAD":           {[]byte("HEAD / HTTP/1.1\r\n\r\n"), "HTTP/1.0 400 "},
	} {
		t.Run(name, func(t *testing.T) { dialRaw(t).refused(c.sent, c.want) })
	}
	t.Run("silence", func(t *testing.T) { dialRaw(t).ends("(TIMEOUT_EXCEEDED)") })
	t.Run("half a hello", func(t *testing.T) {
		w := dialRaw(t)
		w.send([]byte{0, 9, 'h', 'a', 'l', 'f'})
		if err := w.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		w.ends("(INCORRECT_DATA)")
	})
}

// TestReasons: a connection that cannot go on ends with a reason.
func TestReasons(t *testing.T) {
	conn := client(t)
	exec(t, conn, "CREATE TABLE reasons (n UInt64) ENGINE = Memory")
	defer exec(t, conn, "DROP TABLE reasons")
	settings := make([]proto.Setting, 2000)
	for i := range settings {
		settings[i] = proto.Setting{Key: fmt.Sprint("s", i), Value: "1"}
	}
	none := []byte{native.ClientData, 0, 0, 0, 0}
	plain := packet(func(*proto.Query) {})
	insert := packet(func(q *proto.Query) { q.Body = "INSERT INTO reasons FORMAT Native" })
	then := func(sent []byte, more ...byte) []byte { return slices.Concat(sent, more) }
	insert = then(insert, none...)
	for name, c := range map[string]struct {
		analyst bool
		sent    []byte
		want    string
	}{
		"noise":                {false, overlong, "(INCORRECT_DATA)"},
		"unknown packet":       {false, []byte{99}, "(UNEXPECTED_PACKET_FROM_CLIENT)"},
		"rows without a query": {false, none, "(UNEXPECTED_PACKET_FROM_CLIENT)"},
		"oversized query": {false, []byte{
			native.ClientQuery, 0, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xff,
			0xff, 0x7f,
		}, "(INCORRECT_DATA)"},
		"oversized query id": {false, []byte{native.ClientQuery, 0xff, 0xff, 0x7f}, "(INCORRECT_DATA)"},
		"too many settings": {
			false, packet(func(q *proto.Query) { q.Settings = settings }),
			"(INCORRECT_DATA)",
		},
		"another interface": {
			false, packet(func(q *proto.Query) { q.Info.Interface = proto.InterfaceHTTP }),
			"(INCORRECT_DATA)",
		},
		"query behind a query": {false, then(plain, native.ClientQuery), "(UNEXPECTED_PACKET_FROM_CLIENT)"},
		"oversized table name": {false, then(plain, native.ClientData, 0xff, 0xff, 0x7f), "(INCORRECT_DATA)"},
		"a ping among rows":    {false, then(insert, native.ClientPing), "(UNEXPECTED_PACKET_FROM_CLIENT)"},
		"rows that are noise": {
			false, then(insert, then([]byte{native.ClientData, 0, 0}, overlong...)...),
			"(INCORRECT_DATA)",
		},
		"rows of too many columns": {
			false, then(insert, native.ClientData, 0, 0, 0xff, 0xff, 0xff, 0x7f),
			"(INCORRECT_DATA)",
		},
		"an analyst's long query": {
			true,
			[]byte{native.ClientQuery, 0, 0, 0, 0, 2, 0, 0x80, 0x80, 0x80, 0x01},
			"(INCORRECT_DATA)",
		},
		"an analyst's table": {
			true, then(plain, native.ClientData, 1, 't'),
			"external tables are not supported",
		},
		"an analyst's odd packet":     {true, then(plain, 99), "(UNEXPECTED_PACKET_FROM_CLIENT)"},
		"an analyst's oversized rows": {true, then(plain, native.ClientData, 0, 0, 1), "(INCORRECT_DATA)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dialRaw(t)
			if c.analyst {
				w.login("analyst", analystPassword)
			} else {
				w.login("default", password)
			}
			w.refused(c.sent, c.want)
		})
	}
	if err := conn.Ping(testContext(t)); err != nil {
		t.Error("afterwards:", err)
	}
}

// TestReasonsOfLimits: those for whom there is no room are told, be it that they
// come or that they have to go.
func TestReasonsOfLimits(t *testing.T) {
	const tooMany = "(TOO_MANY_SIMULTANEOUS_QUERIES)"
	t.Cleanup(func() { // when all of these have been closed: the next test finds room
		for end := time.Now().Add(time.Minute); dialRaw(t).answer("default", password) != proto.ServerCodeHello; {
			if time.Now().After(end) {
				t.Fatal("there is no room again")
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	silent := dialRaw(t)
	var in int
	for range most {
		if dialRaw(t).answer("default", password) == proto.ServerCodeHello {
			in++
		}
	}
	if in == 0 {
		t.Fatal("nobody gets in")
	}
	silent.ends(tooMany)
	dialRaw(t).refused(hello(native.Revision, "default", password), tooMany)
	for range 2 * most { // more than are given time to read
		dialRaw(t).ends(tooMany)
	}
}

// TestReasonsOfTime: a query that does not come in time, and a server that stops,
// end connections with a reason.
func TestReasonsOfTime(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := serveApart(t, t.TempDir(), "serve") // statements have 4 s
	stop := sync.OnceFunc(s.stop)
	defer stop()
	query, rows := dialAt(t, s.native).login("default", password), dialAt(t, s.native).login("default", password)
	query.send([]byte{native.ClientQuery})
	rows.query("INSERT INTO FUNCTION null('n UInt8') FORMAT Native")
	query.ends("(TIMEOUT_EXCEEDED)")
	rows.ends("(TIMEOUT_EXCEEDED)")
	idle := dialAt(t, s.native).login("analyst", analystPassword)
	idle.query("SELECT 'ready'")
	idle.await("ready")
	stop()
	idle.ends("The server stops (ABORTED)")
}

// TestReasonsOverHTTP: a request that is refused has a status and a text, even
// while its body is still on its way.
func TestReasonsOverHTTP(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	const size = 16 << 20
	login := "user=default&password=" + password
	for name, c := range map[string]struct {
		line, header string
		status       int
		want         string
	}{
		"wrong password": {"POST /?user=default&password=wrong", "", 403, "AUTHENTICATION_FAILED"},
		"token":          {"POST /", "Authorization: Bearer x\r\n", 403, "AUTHENTICATION_FAILED"},
		"another site":   {"POST /?" + login, "Origin: https://evil.example\r\n", 403, "ACCESS_DENIED"},
		"no such path":   {"POST /nowhere", "", 404, "/nowhere"},
		"method":         {"DELETE /?" + login, "", 501, "NOT_IMPLEMENTED"},
		"role":           {"POST /?role=x&" + login, "", 501, "Roles are not supported"},
		"coding":         {"POST /?" + login, "Content-Encoding: lzma\r\n", 501, "Unknown Content-Encoding"},
		"broken body":    {"POST /?" + login, "Content-Encoding: gzip\r\n", 400, "INCORRECT_DATA"},
		"session":        {"POST /?session_timeout=x&" + login, "", 500, "INVALID_SESSION_TIMEOUT"},
		"analyst's insert": {
			"POST /?user=analyst&password=" + analystPassword + "&query=INSERT+INTO+t+FORMAT+TSV", "",
			500, "READONLY",
		},
		"analyst's book": {"POST /?user=analyst&password=" + analystPassword, "", 413, "QUERY_IS_TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			head := fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n", c.line, c.header,
				size)
			status, text := answered(t, append([]byte(head), make([]byte, size)...))
			if status != c.status || !strings.Contains(text, c.want) {
				t.Errorf("status %d: %.200s", status, text)
			}
		})
	}
	for name, c := range map[string]struct {
		sent   []byte
		status int
	}{
		"native protocol": {hello(native.Revision, "default", password), 400},
		"TLS":             {[]byte("\x16\x03\x01\x02\x00\r\n\r\n"), 400},
		"noise":           {[]byte("noise\r\n\r\n"), 400},
	} {
		t.Run(name, func(t *testing.T) {
			if status, text := answered(t, c.sent); status != c.status || text == "" {
				t.Errorf("status %d: %.200s", status, text)
			}
		})
	}
}

// answered sends a request as it is, and reads the response.
func answered(t *testing.T, request []byte) (status int, text string) {
	t.Helper()
	conn := dialAt(t, server.HTTPAddr().String())
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(request); err != nil {
		t.Fatal("while sending:", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(body)
}

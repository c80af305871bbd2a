package clickhouse_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// wire is a bare native connection, for what no client would send.
type wire struct {
	net.Conn
	t *testing.T
}

func dialRaw(t *testing.T) wire {
	t.Helper()
	c, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return wire{c, t}
}

// dial logs in.
func dial(t *testing.T, user, key string) wire {
	t.Helper()
	w := dialRaw(t)
	w.hello(native.Revision, user, key)
	r := proto.NewReader(w)
	if code, err := r.UVarInt(); err != nil || code != uint64(proto.ServerCodeHello) {
		t.Fatalf("packet %d, %v", code, err)
	}
	var hello proto.ServerHello
	if err := hello.DecodeAware(r, native.Revision); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w wire) hello(revision int, user, key string) {
	w.t.Helper()
	var b proto.Buffer
	proto.ClientHello{Name: "test", ProtocolVersion: revision, Database: "millrace", User: user, Password: key}.Encode(&b)
	w.send(b.Buf)
}

func (w wire) send(b []byte) {
	w.t.Helper()
	if _, err := w.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

func (w wire) query(text string) {
	w.t.Helper()
	var b proto.Buffer
	proto.Query{
		Body: text, Stage: proto.StageComplete,
		Info: proto.ClientInfo{ProtocolVersion: native.Revision, Interface: proto.InterfaceTCP, Query: proto.ClientQueryInitial},
	}.EncodeAware(&b, native.Revision)
	b.Buf = append(b.Buf, native.ClientData, 0, 0, 0, 0) // no external tables
	w.send(b.Buf)
}

// closed waits for the server to end the connection.
func (w wire) closed() []byte {
	w.t.Helper()
	all, err := io.ReadAll(w)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		w.t.Error("the connection stays open")
	}
	return all
}

func TestGarbage(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		w := dialRaw(t)
		w.send([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		w.closed()
	})
	t.Run("HTTP", func(t *testing.T) {
		w := dialRaw(t)
		w.send([]byte("GET / HTTP/1.1\r\n\r\n"))
		w.closed()
	})
	t.Run("oversized name", func(t *testing.T) {
		w := dialRaw(t)
		w.send([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x7f})
		w.closed()
	})
	t.Run("old revision", func(t *testing.T) {
		w := dialRaw(t)
		w.hello(54058, "default", password)
		if answer := w.closed(); len(answer) == 0 || answer[0] != byte(proto.ServerCodeException) {
			t.Errorf("%q", answer)
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		w := dialRaw(t)
		w.hello(native.Revision, "default", "wrong")
		if answer := w.closed(); len(answer) == 0 || answer[0] != byte(proto.ServerCodeException) {
			t.Errorf("%q", answer)
		}
	})
	t.Run("unknown packet", func(t *testing.T) {
		w := dial(t, "default", password)
		w.send([]byte{99})
		w.closed()
	})
	t.Run("oversized query", func(t *testing.T) {
		w := dial(t, "default", password)
		w.send([]byte{native.ClientQuery, 0, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
		w.closed()
	})
	t.Run("an analyst's long query", func(t *testing.T) {
		w := dial(t, "analyst", analystPassword)
		w.send([]byte{native.ClientQuery, 0, 0, 0, 0, 2, 0, 0x80, 0x80, 0x80, 0x01})
		if answer := w.closed(); len(answer) == 0 || answer[0] != byte(proto.ServerCodeException) {
			t.Errorf("%q", answer)
		}
	})
	if err := client(t).Ping(testContext(t)); err != nil {
		t.Error("afterwards:", err)
	}
}

package clickhouse_test

import (
	"bytes"
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
	t      *testing.T
	client string // what it calls itself
}

func dialRaw(t *testing.T) wire {
	t.Helper()
	return dialAt(t, server.Addr().String())
}

func dialAt(t *testing.T, addr string) wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return wire{c, t, "test"}
}

// dial logs in.
func dial(t *testing.T, user, key string) wire {
	t.Helper()
	return dialRaw(t).login(user, key)
}

func (w wire) login(user, key string) wire {
	w.t.Helper()
	w.hello(native.Revision, user, key)
	r := proto.NewReader(w)
	if code, err := r.UVarInt(); err != nil || code != uint64(proto.ServerCodeHello) {
		w.t.Fatalf("packet %d, %v", code, err)
	}
	var hello proto.ServerHello
	if err := hello.DecodeAware(r, native.Revision); err != nil {
		w.t.Fatal(err)
	}
	w.send([]byte{0}) // no quota key
	return w
}

func (w wire) hello(revision int, user, key string) {
	w.t.Helper()
	var b proto.Buffer
	proto.ClientHello{
		Name: w.client, ProtocolVersion: revision, Database: "millrace", User: user,
		Password: key,
	}.Encode(&b)
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
		Info: proto.ClientInfo{
			ProtocolVersion: native.Revision, Interface: proto.InterfaceTCP,
			Query: proto.ClientQueryInitial,
		},
	}.EncodeAware(&b, native.Revision)
	b.Buf = append(b.Buf, native.ClientData, 0, 0, 0, 0) // no external tables
	w.send(b.Buf)
}

// await reads until part comes.
func (w wire) await(part string) {
	w.t.Helper()
	var all []byte
	buf := make([]byte, 1<<10)
	for !bytes.Contains(all, []byte(part)) {
		n, err := w.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			w.t.Fatalf("%q does not come: %v, after %q", part, err, all)
		}
	}
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

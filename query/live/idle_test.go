package live

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
)

// mostIdle bounds what an idle WebSocket with a subscription takes of heap and
// stacks, in bytes, with that of the test's own side of the connection and what the
// race detector adds.
const mostIdle = 28_000

// TestIdle: a WebSocket that has subscribed and says nothing takes little memory:
// its request, and the buffers and the stack of that, are gone.
func TestIdle(t *testing.T) {
	if each := idle(t, 1000); each > mostIdle {
		t.Errorf("an idle WebSocket takes %d bytes, want at most %d", each, mostIdle)
	}
}

// BenchmarkIdle tells what an idle WebSocket with a subscription costs:
// go test ./query/live -run '^$' -bench Idle -benchtime 9000x
func BenchmarkIdle(b *testing.B) {
	b.ReportMetric(float64(idle(b, b.N)), "bytes/conn")
}

// idle opens n WebSockets, and returns what each takes.
func idle(t testing.TB, n int) (each uint64) {
	hub, err := New(Config{Refresh: time.Hour}, []View{newCounter().view()}, prometheus.NewRegistry(),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	draining := make(chan struct{})
	srv := httptest.NewServer(auth.New(auth.Config{}).RequireSocket(auth.Read)(hub.Handler(draining)))
	defer func() { close(draining); srv.Close(); hub.Wait() }()
	conns := make([]net.Conn, n)
	scratch := make([]byte, 64<<10)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	before := inUse()
	for i := range conns {
		if conns[i], err = subscribed(srv.Listener.Addr().String(), scratch); err != nil {
			t.Fatal(err)
		}
	}
	return (max(inUse(), before) - before) / uint64(n)
}

// inUse is the memory of heap and stacks after a collection.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// subscribed opens a WebSocket by hand, since a client's own buffers would be
// measured too, and waits for its first snapshot.
func subscribed(addr string, scratch []byte) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	request := []byte(`{"op":"subscribe","id":"a","view":"funnel"}`)
	hello := fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
	if _, err := c.Write(hello); err != nil {
		return nil, err
	}
	got := 0
	for !bytes.Contains(scratch[:got], []byte("\r\n\r\n")) {
		n, err := c.Read(scratch[got:])
		if err != nil {
			return nil, err
		}
		got += n
	}
	frame := append([]byte{0x81, 0x80 | byte(len(request)), 0, 0, 0, 0}, request...) // masked by zeros
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	for got = 0; !bytes.Contains(scratch[:got], []byte(`"funnel":`)); {
		n, err := c.Read(scratch[got:])
		if err != nil {
			return nil, err
		}
		got += n
	}
	return c, nil
}

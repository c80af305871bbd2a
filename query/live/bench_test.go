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
)

// BenchmarkIdle tells what an idle WebSocket with a subscription costs:
// go test ./query/live -run '^$' -bench Idle -benchtime 9000x
func BenchmarkIdle(b *testing.B) {
	hub, err := New(Config{Refresh: time.Hour}, map[string]View{"funnel": newCounter()}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	draining := make(chan struct{})
	srv := httptest.NewServer(hub.Handler(draining))
	defer func() { close(draining); srv.Close(); hub.Wait() }()
	before := inUse()
	conns := make([]net.Conn, b.N)
	scratch := make([]byte, 64<<10)
	b.ResetTimer()
	for i := range conns {
		if conns[i], err = subscribed(srv.Listener.Addr().String(), scratch); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(inUse()-before)/float64(b.N), "bytes/conn")
	for _, c := range conns {
		_ = c.Close()
	}
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

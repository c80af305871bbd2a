package live

import (
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
)

// TestIdenticalSubscriptions holds bound 1: 200 readers of one view cost one
// computation and one encoding a change, over WebSockets, compressed and not, and
// as events.
func TestIdenticalSubscriptions(t *testing.T) {
	f := start(t, Config{Compress: true})
	f.view.pad = strings.Repeat("pad ", 2000)
	const readers, changes = 200, 5
	compressing := websocket.Dialer{EnableCompression: true}
	var sockets []*websocket.Conn
	for i := range readers / 2 {
		dialer := websocket.DefaultDialer
		if i%2 == 0 {
			dialer = &compressing
		}
		ws, _, err := dialer.Dial(f.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		send(t, ws, `{"op":"subscribe","id":"a","epoch":""}`)
		sockets = append(sockets, ws)
	}
	var streams []*stream
	for range readers / 2 {
		streams = append(streams, f.stream("", ""))
	}
	see := func(n int) {
		t.Helper()
		for i, ws := range sockets {
			if m := receive(t, ws); m.Funnel == nil || m.Funnel.N != n || m.Seq != uint64(n+1) {
				t.Fatalf("change %d: socket %d gets %+v", n, i, m)
			}
		}
		for i, s := range streams {
			if e := s.next(); e.Funnel == nil || e.Funnel.N != n || e.Seq != uint64(n+1) {
				t.Fatalf("change %d: stream %d gets %+v", n, i, e)
			}
		}
	}
	see(0)
	for n := range changes {
		f.view.set(func() { f.view.n = n + 1 })
		see(n + 1)
	}
	f.view.mu.Lock()
	defer f.view.mu.Unlock()
	// It may be computed once more for each change: a change that comes while one
	// is computed is looked at again.
	if f.view.computed > 2*(changes+1) {
		t.Errorf("computed %d times for %d changes", f.view.computed, changes)
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	for _, feed := range f.hub.feeds {
		if n := len(feed.latest().messages.frames); n != 2 {
			t.Errorf("%d frames were made for %d subscriptions with one id, compressed and not", n, len(sockets))
		}
	}
}

// TestCompression: a snapshot is compressed for clients that ask for it.
func TestCompression(t *testing.T) {
	f := start(t, Config{Compress: true})
	f.view.pad = strings.Repeat("pad ", 8000)
	var got atomic.Int64
	dialer := websocket.Dialer{EnableCompression: true, NetDial: func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		return metered{conn, &got}, err
	}}
	ws, _, err := dialer.Dial(f.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	if m := receive(t, ws); m.Funnel == nil || got.Load() > 4000 {
		t.Errorf("%d bytes for a snapshot of 32,000 that is nearly all alike: %+v", got.Load(), m)
	}
}

type metered struct {
	net.Conn
	got *atomic.Int64
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.got.Add(int64(n))
	return n, err
}

// TestInflatedMessage: a message that is short only while it is compressed is
// as long as it becomes.
func TestInflatedMessage(t *testing.T) {
	f := start(t, Config{Compress: true})
	ws, _, err := (&websocket.Dialer{EnableCompression: true}).Dial(f.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if err := ws.SetCompressionLevel(flate.BestCompression); err != nil {
		t.Fatal(err)
	}
	send(t, ws, `{"op":"subscribe","id":"a","pad":"`+strings.Repeat("x", 100*maxMessage)+`"}`)
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("ended with %v", err)
	}
}

// TestOldClient: a client of before there were epochs works as ever: it sends no
// new member, ignores those that it gets, and its snapshots count from 1 without
// a gap, though others have watched the view for long.
func TestOldClient(t *testing.T) {
	f := start(t, Config{})
	early := f.dial()
	send(t, early, `{"op":"subscribe","id":"early","view":"funnel","period":"24h"}`)
	for n := range 7 {
		f.view.set(func() { f.view.n = n })
		for receive(t, early).Funnel.N != n {
		}
	}
	old := f.dial()
	send(t, old, `{"op":"subscribe","id":"good","view":"funnel","period":"24h"}`)
	for n := 6; n < 12; n++ {
		f.view.set(func() { f.view.n = n })
		_, data, err := old.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		prefix := fmt.Sprintf(`{"id":"good","seq":%d,`, n-5)
		var m struct {
			ID     string
			Seq    int
			Funnel struct{ N int }
		}
		if err := json.Unmarshal(data, &m); err != nil || m.Funnel.N != n || !strings.HasPrefix(string(data), prefix) {
			t.Fatalf("%s, want %s… with %d", data, prefix, n)
		}
	}
	send(t, old, `{"op":"unsubscribe","id":"good"}`)
	send(t, old, `{"op":"subscribe","id":"good","view":"funnel","period":"24h"}`)
	if m := receive(t, old); m.Seq != 1 || m.Funnel.N != 11 {
		t.Errorf("%+v", m)
	}
	resp, err := http.Get("http" + strings.TrimPrefix(f.url, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %s, %v", resp.Status, err)
	}
}

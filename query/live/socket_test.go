package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// pair returns both ends of a connection over TCP.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if there, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if here, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}

// TestSocketDoesNotWait: a write for which there is no room returns, and says
// that there is something to flush; flush sends it, in order. That holds as well
// for a connection that can only be written to by waiting.
func TestSocketDoesNotWait(t *testing.T) {
	for _, kind := range []string{"tcp", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			here, there := net.Pipe()
			if kind == "tcp" {
				here, there = pair(t)
			}
			defer here.Close()
			defer there.Close()
			told := 0
			s := newSocket(here, func() { told++ })
			var sent bytes.Buffer
			write := func(p []byte) error {
				n, err := s.Write(p)
				sent.Write(p[:n])
				return err
			}
			for i := uint32(0); !s.isLate(); i++ {
				if err := write(bytes.Repeat(binary.BigEndian.AppendUint32(nil, i), 64<<10)); err != nil {
					t.Fatal(err)
				}
			}
			if told == 0 {
				t.Error("nobody is told that there is something to flush")
			}
			// The rest of a message may be long; what comes behind it may not.
			if err := write(make([]byte, maxBehind+1)); !errors.Is(err, errBehind) {
				t.Errorf("a long message behind one that is not taken: %v", err)
			}
			got := make(chan []byte, 1)
			go func() {
				all, _ := io.ReadAll(there)
				got <- all
			}()
			if err := s.flush(time.Minute); err != nil || s.isLate() {
				t.Fatalf("flush: %v, late %t", err, s.isLate())
			}
			if err := errors.Join(write([]byte("the end")), s.flush(time.Minute), here.Close()); err != nil {
				t.Fatal(err)
			}
			if all := <-got; !bytes.Equal(all, sent.Bytes()) {
				t.Errorf("%d bytes of %d arrive, or others", len(all), sent.Len())
			}
		})
	}
}

// TestSocketGivesUp: flush does not wait for ever, and nothing is sent behind
// what was cut off.
func TestSocketGivesUp(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	defer here.Close()
	s := newSocket(here, func() {})
	if _, err := s.Write([]byte("never taken")); err != nil {
		t.Fatal(err)
	}
	if err := s.flush(time.Millisecond); err == nil {
		t.Error("flush returns though nobody reads")
	}
	if !s.isLate() {
		t.Error("something could be sent behind what was cut off")
	}
}

// TestOwnIDs: subscriptions with more ids than frames are kept for, all receive
// the same snapshot under their own id, compressed and not.
func TestOwnIDs(t *testing.T) {
	for _, compress := range []bool{false, true} {
		f := start(t, Config{Compress: compress})
		const connections, each = 3, 32
		var sockets []*websocket.Conn
		for i := range connections {
			ws, _, err := (&websocket.Dialer{EnableCompression: true}).Dial(f.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Close()
			for k := range each {
				send(t, ws, fmt.Sprintf(`{"op":"subscribe","id":"reader %d of %d","epoch":""}`, k, i))
			}
			sockets = append(sockets, ws)
		}
		for n := range 3 {
			for i, ws := range sockets {
				seen := map[string]bool{}
				for len(seen) < each {
					m := receive(t, ws)
					if m.Funnel == nil || m.Funnel.N > n {
						t.Fatalf("connection %d: %+v", i, m)
					}
					if m.Funnel.N == n {
						seen[m.ID] = true
					}
				}
				if !seen[fmt.Sprintf("reader %d of %d", each-1, i)] {
					t.Errorf("connection %d: %v", i, seen)
				}
			}
			f.view.set(func() { f.view.n = n + 1 })
		}
	}
}

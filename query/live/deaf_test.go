package live

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// TestDeafSubscribers holds bound 2: subscribers that never read, to a view
// that changes all the time, hold a frame each and no backlog, one beside them
// gets each change, and they are dropped.
func TestDeafSubscribers(t *testing.T) {
	f := start(t, Config{WriteTimeout: 2 * time.Second})
	f.view.pad = strings.Repeat("x", 64<<10)
	const deaf, subscriptions, changes = 20, 32, 100
	dialer := websocket.Dialer{NetDialContext: (&net.Dialer{Control: smallWindow}).DialContext}
	for range deaf {
		ws, _, err := dialer.Dial(f.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		for i := range subscriptions {
			send(t, ws, fmt.Sprintf(`{"op":"subscribe","id":"%d"}`, i))
		}
	}
	good := f.dial()
	var seq uint64
	send(t, good, `{"op":"subscribe","id":"good"}`)
	want(t, good, "good", 0, &seq)
	before := inUse()
	for n := range changes {
		f.view.set(func() { f.view.n = n + 1 })
		want(t, good, "good", n+1, &seq)
	}
	// A backlog would be of 4 GB.
	if more := int64(inUse()) - int64(before); more > deaf*(256<<10) {
		t.Errorf("%d deaf subscribers hold %d KB more after %d changes", deaf, more>>10, changes)
	}
	for deadline := time.After(time.Minute); f.connections() > 1; {
		select {
		case <-deadline:
			t.Fatalf("%d deaf subscribers are still connected", f.connections()-1)
		case <-time.After(time.Millisecond):
		}
	}
	f.view.set(func() { f.view.n = changes + 1 })
	want(t, good, "good", changes+1, &seq)
}

func (f *fixture) connections() int { return f.hub.seats.Taken() }

func smallWindow(_, _ string, c syscall.RawConn) error {
	return c.Control(
		func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) },
	)
}

package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// again subscribes on a connection of its own with the snapshot of a message.
func (f *fixture) again(epoch string, seq uint64) (*websocket.Conn, message) {
	f.t.Helper()
	ws := f.dial()
	send(f.t, ws, fmt.Sprintf(`{"op":"subscribe","id":"a","epoch":%q,"seq":%d}`, epoch, seq))
	return ws, receive(f.t, ws)
}

// TestReconnect holds invariants 4 to 7: a reader that comes again is told that
// nothing is new, or gets a whole snapshot, whether it counts by itself or by the
// view's sequence, and whether the feed had other readers meanwhile or none.
func TestReconnect(t *testing.T) {
	for _, opening := range []string{`{"op":"subscribe","id":"a"}`, `{"op":"subscribe","id":"a","epoch":""}`} {
		for _, watched := range []bool{true, false} {
			t.Run(fmt.Sprint(strings.Contains(opening, "epoch"), watched), func(t *testing.T) {
				f := start(t, Config{})
				computed := func() {} // waits until the feed has what the view shows
				if watched {
					other := f.dial()
					send(t, other, `{"op":"subscribe","id":"other"}`)
					computed = func() {
						for receive(t, other).Funnel.N != f.view.n {
						}
					}
				}
				ws := f.dial()
				send(t, ws, opening)
				last := receive(t, ws)
				f.view.set(func() { f.view.n = 5 })
				last = receive(t, ws)
				if last.Seq != 2 || last.Epoch == "" || last.Funnel.N != 5 {
					t.Fatalf("%+v", last)
				}
				reconnect := func(change func()) {
					t.Helper()
					_ = ws.Close()
					f.connectedAre(map[bool]int{true: 1, false: 0}[watched])
					if change != nil {
						f.view.set(change)
						computed() // until then nothing is new for readers
					}
					var got message
					ws, got = f.again(last.Epoch, last.Seq)
					switch unchanged := got.Unchanged && got.Funnel == nil && got.Seq == last.Seq; {
					case change == nil && (!unchanged || got.Epoch != last.Epoch):
						t.Fatalf("nothing is new after %+v, and one gets %+v", last, got)
					case change != nil && (got.Unchanged || got.Funnel == nil || got.Funnel.N != f.view.n ||
						got.Seq != last.Seq+1 || got.Epoch != last.Epoch):
						t.Fatalf("%d is new after %+v, and one gets %+v", f.view.n, last, got)
					}
					last = got
				}
				reconnect(nil)
				reconnect(func() { f.view.n = 6 })
				reconnect(nil)
				// What is new later goes on from there.
				f.view.set(func() { f.view.n = 7 })
				got := receive(t, ws)
				if got.Funnel == nil || got.Funnel.N != 7 || got.Seq != last.Seq+1 || got.Epoch != last.Epoch {
					t.Fatalf("after %+v comes %+v", last, got)
				}
			})
		}
	}
}

// TestStrangeSnapshotIDs: whatever else a reader names, it gets a whole snapshot:
// of another process or view, beyond the newest, or nonsense.
func TestStrangeSnapshotIDs(t *testing.T) {
	f := start(t, Config{})
	ws := f.dial()
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	now := receive(t, ws)
	other := start(t, Config{})
	ws = other.dial()
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	restarted := receive(t, ws)
	ws = f.dial()
	send(t, ws, `{"op":"subscribe","id":"b","source":"s"}`)
	elsewhere := receive(t, ws)
	if restarted.Epoch == now.Epoch || elsewhere.Epoch == now.Epoch {
		t.Fatalf("epochs %s, %s after a restart, %s of another view", now.Epoch, restarted.Epoch, elsewhere.Epoch)
	}
	for name, p := range map[string]snapshotID{
		"another process": {restarted.Epoch, restarted.Seq}, "another view": {elsewhere.Epoch, elsewhere.Seq},
		"too far ahead": {now.Epoch, now.Seq + 1}, "far too far": {now.Epoch, 1<<64 - 1}, "before": {now.Epoch, 0},
		"a count too far": {now.Epoch + "+18446744073709551615", 2}, "a count": {now.Epoch + "+1", 1},
		"no count": {now.Epoch + "+x", 1},
		"longer":   {now.Epoch + "1", now.Seq}, "shorter": {now.Epoch[:len(now.Epoch)-1], now.Seq}, "none": {"", 0},
		"none but a number": {"", now.Seq},
	} {
		if _, got := f.again(p.epoch, p.seq); got.Unchanged || got.Funnel == nil || got.Seq != now.Seq ||
			got.Epoch != now.Epoch {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestForgottenFeed: a feed that is forgotten begins another epoch.
func TestForgottenFeed(t *testing.T) {
	f := start(t, Config{Linger: time.Millisecond})
	ws := f.dial()
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	last := receive(t, ws)
	_ = ws.Close()
	f.feedsAre(0)
	if _, got := f.again(last.Epoch, last.Seq); got.Unchanged || got.Funnel == nil || got.Epoch == last.Epoch {
		t.Errorf("after %+v comes %+v", last, got)
	}
}

// TestRoomForFeeds: feeds without readers make room for others, the one that has
// had none for longest first.
func TestRoomForFeeds(t *testing.T) {
	f := start(t, Config{Feeds: 3})
	watch := func(source string) (message, func()) {
		ws := f.dial()
		send(t, ws, fmt.Sprintf(`{"op":"subscribe","id":"a","source":%q}`, source))
		m := receive(t, ws)
		return m, func() { _ = ws.Close() }
	}
	_, _ = watch("stays")
	first, end := watch("1")
	end()
	f.connectedAre(1)
	second, end := watch("2")
	end()
	f.connectedAre(1)
	if m, end := watch("3"); m.Error != nil {
		t.Fatalf("%+v", m)
	} else {
		end()
	}
	f.connectedAre(1)
	f.feedsAre(3)
	if m, _ := watch("2"); m.Epoch[:len(second.Epoch)] != second.Epoch {
		t.Errorf("the feed of 2 was forgotten: %s, then %s", second.Epoch, m.Epoch)
	}
	if m, _ := watch("1"); strings.HasPrefix(m.Epoch, first.Epoch) {
		t.Errorf("the feed of 1 was not forgotten: %s, then %s", first.Epoch, m.Epoch)
	}
	if m, _ := watch("4"); m.Error == nil {
		t.Errorf("a fourth feed beside three that are watched: %+v", m)
	}
}

// TestStaleSnapshotIsNotShown: a feed that had no readers computes before it
// shows anything.
func TestStaleSnapshotIsNotShown(t *testing.T) {
	f := start(t, Config{})
	for n := range 5 {
		f.view.set(func() { f.view.n = n })
		ws := f.dial()
		send(t, ws, `{"op":"subscribe","id":"a"}`)
		if m := receive(t, ws); m.Funnel == nil || m.Funnel.N != n || m.Seq != 1 {
			t.Fatalf("%d: %+v", n, m)
		}
		_ = ws.Close()
		f.connectedAre(0)
	}
}

func (f *fixture) feedsAre(n int) {
	f.t.Helper()
	f.become(func() int { return len(f.hub.feeds) }, n)
}

func (f *fixture) connectedAre(n int) {
	f.t.Helper()
	f.become(f.hub.seats.Taken, n)
}

// become waits until a figure of the hub has a value.
func (f *fixture) become(figure func() int, n int) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		f.hub.mu.Lock()
		now := figure()
		f.hub.mu.Unlock()
		if now == n {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("there are %d, want %d", now, n)
		}
	}
}

// FuzzSnapshotID: what is read of an id never lies beyond the newest
// snapshot, and is written the same again.
func FuzzSnapshotID(f *testing.F) {
	f.Add("x.1+16:3", uint64(20))
	f.Add("x.1:3", uint64(2))
	f.Add("y:1", uint64(2))
	f.Fuzz(func(t *testing.T, text string, newest uint64) {
		p := *parseEventID(text)
		seq, base, ok := p.in("x.1", newest)
		if !ok {
			return
		}
		again := *parseEventID(snapshotIDOf("x.1", seq, base).eventID())
		if back, b, ok := again.in("x.1", newest); seq > newest || base > seq || !ok || back != seq || b != base {
			t.Fatalf("%q of %d: %d behind %d, then %d behind %d", text, newest, seq, base, back, b)
		}
	})
}

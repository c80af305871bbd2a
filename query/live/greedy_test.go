package live

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// dialAs connects as the caller of a name; resp is the refusal, if any.
func (f *fixture) dialAs(name string) (ws *websocket.Conn, resp *http.Response) {
	f.t.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial(f.url+"/as/"+name, nil)
	if err != nil {
		return nil, resp
	}
	f.t.Cleanup(func() { _ = ws.Close() })
	return ws, nil
}

// endsFor tells whether a connection is closed because others need it.
func endsFor(ws *websocket.Conn) bool {
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return websocket.IsCloseError(err, websocket.CloseTryAgainLater)
		}
	}
}

// TestGreedyConnections: a caller with all connections loses the newest to others, and gets it
// back only when there is room.
func TestGreedyConnections(t *testing.T) {
	f := start(t, Config{Connections: 4})
	var greedy []*websocket.Conn
	for range 3 {
		ws, _ := f.dialAs("greedy")
		greedy = append(greedy, ws)
	}
	events, err := http.Get("http" + strings.TrimPrefix(f.url, "ws") + "/as/greedy/sse?view=funnel")
	if err != nil || events.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", events, err)
	}
	defer events.Body.Close()
	for i, name := range []string{"one", "two"} {
		ws, resp := f.dialAs(name)
		if ws == nil {
			t.Fatalf("%s is kept out: %+v", name, resp)
		}
		if i == 0 { // in the place of the event stream
			text := make([]byte, 1<<10)
			for {
				if _, err := events.Body.Read(text); err != nil {
					break
				}
			}
		} else if !endsFor(greedy[2]) {
			t.Error("a connection ends without a reason")
		}
		var seq uint64
		send(t, ws, `{"op":"subscribe","id":"a"}`)
		want(t, ws, "a", 0, &seq)
	}
	if ws, resp := f.dialAs("greedy"); ws != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("greedy comes again: %+v", resp)
	}
}

// TestGreedyViews: a caller that watches all distinct views that may be watched loses one to
// another, and keeps those that others watch, too.
func TestGreedyViews(t *testing.T) {
	f := start(t, Config{Feeds: 4})
	periods := []string{"today", "24h", "7d", "30d"}
	var greedy []*websocket.Conn
	for i, period := range periods {
		ws, _ := f.dialAs("greedy")
		var seq uint64
		send(t, ws, fmt.Sprintf(`{"op":"subscribe","id":"a","period":%q}`, period))
		want(t, ws, "a", 0, &seq)
		if greedy = append(greedy, ws); i == 3 {
			shared, _ := f.dialAs("friend")
			send(t, shared, fmt.Sprintf(`{"op":"subscribe","id":"a","period":%q}`, period))
			seq = 0
			want(t, shared, "a", 0, &seq)
		}
	}
	other, _ := f.dialAs("other")
	send(t, other, `{"op":"subscribe","id":"a","source":"s"}`)
	var seq uint64
	want(t, other, "a", 0, &seq)
	if !endsFor(greedy[2]) { // the newest that nobody else watches
		t.Error("a connection ends without a reason")
	}
	ws, _ := f.dialAs("greedy")
	send(t, ws, `{"op":"subscribe","id":"a","period":"7d"}`)
	if m := receive(t, ws); m.Error == nil || m.Error.Status != http.StatusServiceUnavailable {
		t.Errorf("greedy watches a view again: %+v", m)
	}
}

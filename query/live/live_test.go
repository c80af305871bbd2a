package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// counter is a view that shows a number.
type counter struct {
	mu       sync.Mutex
	n        int
	fail     error
	computed int
	pad      string // makes snapshots large
	slow     bool
	changed  chan struct{}
}

func newCounter() *counter { return &counter{changed: make(chan struct{})} }

// view is the counter as a view with the parameters that tests use.
func (v *counter) view() View {
	return View{
		Name: "funnel", Summary: "a number", State: reflect.TypeFor[number](),
		Params: []Param{
			{Name: "period"}, {Name: "source"}, {Name: "tz"}, {Name: "exclude_reclassifications", Flag: true},
		},
		Open: func(_ auth.Caller, p Values) (string, Source, *httpapi.Problem) {
			if p["source"] == "bad" {
				return "", nil, problem(
					"a field breaks a rule", httpapi.FieldError{Field: "source", Code: "bad", Rule: "must be good"},
				)
			}
			key := fmt.Sprintf(
				"%s %s %s %t", cmp.Or(p["period"], "today"), p["source"], cmp.Or(p["tz"], "UTC"),
				p.Flag("exclude_reclassifications"),
			)
			return key, counted{v, p["source"]}, nil
		},
	}
}

type number struct {
	Source string
	N      int
}

// counted is the counter for one source.
type counted struct {
	*counter
	source string
}

func (v counted) Snapshot(context.Context) (Snapshot, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.computed++
	if v.fail != nil {
		return Snapshot{}, v.fail
	}
	return Snapshot{
		Body: fmt.Appendf(nil, `{"source":%q,"n":%d,"pad":"%s"}`, v.source, v.n, v.pad), Numbers: fmt.Sprint(v.n),
		Slow: v.slow,
	}, nil
}

func (v *counter) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

func (v *counter) set(change func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change()
	close(v.changed)
	v.changed = make(chan struct{})
}

// anyone is a caller where there is no secret, who may do everything.
func anyone() (caller auth.Caller) {
	auth.New(auth.Config{}).Require(auth.Read)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		caller = auth.CallerFrom(r.Context())
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	return caller
}

type message struct {
	ID        string
	Seq       uint64
	Epoch     string
	Unchanged bool
	Funnel    *number
	Error     *httpapi.Problem
}

// fixture is a hub behind a server.
type fixture struct {
	t        *testing.T
	hub      *Hub
	view     *counter
	url      string
	draining chan struct{}
}

func start(t *testing.T, cfg Config, more ...View) *fixture {
	t.Helper()
	f := &fixture{t: t, view: newCounter(), draining: make(chan struct{})}
	if cfg.Interval == 0 {
		cfg.Interval = time.Millisecond
	}
	if cfg.Refresh == 0 {
		cfg.Refresh = time.Hour
	}
	var err error
	f.hub, err = New(cfg, append(more, f.view.view()), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	open := auth.New(auth.Config{})
	mux := http.NewServeMux()
	mux.Handle("/sse", open.RequireEvents(auth.Read)(f.hub.Events(f.draining)))
	mux.Handle("/", open.RequireSocket(auth.Read)(f.hub.Handler(f.draining)))
	mux.Handle("/as/{subject}", as(f.hub.Handler(f.draining)))
	mux.Handle("/as/{subject}/sse", as(f.hub.Events(f.draining)))
	srv := httptest.NewServer(mux)
	f.url = "ws" + strings.TrimPrefix(srv.URL, "http")
	t.Cleanup(func() {
		select {
		case <-f.draining:
		default:
			close(f.draining)
		}
		srv.Close()
		f.hub.Wait()
	})
	return f
}

// as has requests come from the subject in their path.
func as(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := anyone()
		caller.Subject = r.PathValue("subject")
		h.ServeHTTP(w, r.WithContext(auth.WithCaller(r.Context(), caller)))
	})
}

func (f *fixture) dial() *websocket.Conn {
	f.t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(f.url, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = ws.Close() })
	return ws
}

func send(t *testing.T, ws *websocket.Conn, text string) {
	t.Helper()
	if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, ws *websocket.Conn) message {
	t.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
	_, data, err := ws.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return m
}

// want receives until a subscription shows a number, and checks that it counts
// its snapshots without a gap.
func want(t *testing.T, ws *websocket.Conn, id string, n int, seq *uint64) {
	t.Helper()
	for {
		m := receive(t, ws)
		if m.Error != nil || m.ID != id || m.Funnel == nil || m.Seq != *seq+1 || m.Funnel.N > n {
			t.Fatalf("%+v after snapshot %d, want %d", m, *seq, n)
		}
		if *seq = m.Seq; m.Funnel.N == n {
			return
		}
	}
}

func TestSnapshots(t *testing.T) {
	f := start(t, Config{})
	a, b := f.dial(), f.dial()
	var seqA, seqB uint64
	send(t, a, `{"op":"subscribe","id":"a"}`)
	want(t, a, "a", 0, &seqA)
	send(t, b, `{"op":"subscribe","id":"b \"\u00fc","view":"funnel","period":"today","source":"","tz":"UTC"}`)
	want(t, b, `b "ü`, 0, &seqB)
	for n := range 20 {
		f.view.set(func() { f.view.n = n + 1 })
		want(t, a, "a", n+1, &seqA)
		want(t, b, `b "ü`, n+1, &seqB)
	}
	f.hub.mu.Lock()
	feeds := f.hub.watched
	f.hub.mu.Unlock()
	f.view.mu.Lock()
	defer f.view.mu.Unlock()
	if feeds != 1 || f.view.computed > 42 {
		t.Errorf("%d feeds have computed %d snapshots of one view", feeds, f.view.computed)
	}
}

// TestSlowSnapshots: a view that is slow to compute is computed for the first
// change at once, and then every Refresh at most, whatever changes.
func TestSlowSnapshots(t *testing.T) {
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			v := newCounter()
			v.slow = slow
			ctx, cancel := context.WithCancel(t.Context())
			f := &feed{source: counted{v, ""}, every: 5 * time.Second, readers: map[reader]int{}}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				f.run(ctx, Config{Refresh: 5 * time.Second}.withDefaults())
			}()
			for range 600 { // a minute
				synctest.Wait()
				v.set(func() { v.n++ })
				time.Sleep(100 * time.Millisecond)
			}
			cancel()
			<-ended
			if computed := v.computed; slow != (computed <= 14) {
				t.Errorf("slow %t: computed %d times", slow, computed)
			}
		})
	}
}

// TestPolledAsOften: a view that is polled is computed as often as it says, also when
// each state is news that readers are told, and takes a while to compute.
func TestPolledAsOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		computed := 0
		f := &feed{
			source: polled[int]{"n", "away", func(context.Context) (int, error) {
				time.Sleep(10 * time.Millisecond)
				computed++
				return computed, nil
			}}, every: pollEvery, readers: map[reader]int{},
		}
		go f.run(ctx, Config{}.withDefaults())
		time.Sleep(50*pollEvery - time.Nanosecond)
		cancel()
		synctest.Wait()
		if computed != 50 {
			t.Errorf("computed %d times in 50 intervals", computed)
		}
	})
}

// TestNoNewsNoSnapshot: a change that does not show is not sent.
func TestNoNewsNoSnapshot(t *testing.T) {
	f := start(t, Config{Refresh: time.Millisecond})
	ws := f.dial()
	var seq uint64
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	want(t, ws, "a", 0, &seq)
	for range 50 {
		f.view.set(func() {})
	}
	f.view.set(func() { f.view.n = 1 })
	if m := receive(t, ws); m.Seq != 2 || m.Funnel.N != 1 {
		t.Errorf("%+v", m)
	}
}

func TestUnsubscribe(t *testing.T) {
	f := start(t, Config{})
	ws := f.dial()
	var seq, other uint64
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	want(t, ws, "a", 0, &seq)
	send(t, ws, `{"op":"unsubscribe","id":"a"}`)
	send(t, ws, `{"op":"unsubscribe","id":"a"}`)
	if m := receive(t, ws); m.ID != "a" || m.Error == nil || m.Error.Errors[0].Code != "id_unknown" {
		t.Fatalf("%+v", m)
	}
	f.view.set(func() { f.view.n = 1 })
	send(t, ws, `{"op":"subscribe","id":"a","source":"s"}`)
	want(t, ws, "a", 1, &other)
}

// TestSlowReader: who does not read gets the newest state next, not all that
// was missed.
func TestSlowReader(t *testing.T) {
	f := start(t, Config{WriteTimeout: time.Minute})
	f.view.pad = strings.Repeat("x", 256<<10)
	slow, fast := f.dial(), f.dial()
	if err := slow.NetConn().(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	var seqSlow, seqFast uint64
	send(t, slow, `{"op":"subscribe","id":"slow"}`)
	send(t, fast, `{"op":"subscribe","id":"fast"}`)
	want(t, slow, "slow", 0, &seqSlow)
	want(t, fast, "fast", 0, &seqFast)
	const last = 60
	for n := range last {
		f.view.set(func() { f.view.n = n + 1 })
		want(t, fast, "fast", n+1, &seqFast)
	}
	want(t, slow, "slow", last, &seqSlow)
	// What the sockets' buffers hold may arrive; 15 MB do not fit.
	if seqSlow > last/2 {
		t.Errorf("the slow reader got %d of %d snapshots", seqSlow, last)
	}
}

func TestSlowReaderIsClosed(t *testing.T) {
	f := start(t, Config{WriteTimeout: 10 * time.Millisecond})
	f.view.pad = strings.Repeat("x", 16<<20)
	ws := f.dial()
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	f.gone(1)
}

// gone waits until a connection has been there and is closed.
func (f *fixture) gone(feeds int) {
	f.t.Helper()
	seen := false
	deadline := time.After(time.Minute)
	for {
		f.hub.mu.Lock()
		now := f.hub.watched
		conns := f.hub.seats.Taken()
		f.hub.mu.Unlock()
		if seen = seen || now >= feeds; seen && now == 0 && conns == 0 {
			return
		}
		select {
		case <-deadline:
			f.t.Fatalf("%d feeds and %d connections are left", now, conns)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestSilentClientIsClosed(t *testing.T) {
	f := start(t, Config{PingInterval: 20 * time.Millisecond})
	ws := f.dial()
	ws.SetPingHandler(func(string) error { return nil }) // answers no ping
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	go func() {
		for {
			if _, _, err := ws.ReadMessage(); err != nil {
				return
			}
		}
	}()
	f.gone(1)
}

// TestPingsAreSpread: readers that come together are not pinged together.
func TestPingsAreSpread(t *testing.T) {
	const readers, interval = 20, 500 * time.Millisecond
	f := start(t, Config{PingInterval: interval})
	waited := make(chan time.Duration, readers)
	for range readers {
		ws, begin := f.dial(), time.Now()
		var first sync.Once
		answer := ws.PingHandler()
		ws.SetPingHandler(func(data string) error {
			first.Do(func() { waited <- time.Since(begin) })
			return answer(data)
		})
		go func() {
			for {
				if _, _, err := ws.ReadMessage(); err != nil {
					return
				}
			}
		}()
	}
	var all []time.Duration
	for range readers {
		all = append(all, <-waited)
	}
	if spread := slices.Max(all) - slices.Min(all); spread < interval/10 {
		t.Errorf("the first pings come within %v", spread)
	}
}

func TestPingsKeepAlive(t *testing.T) {
	f := start(t, Config{PingInterval: time.Second})
	ws := f.dial()
	pings := make(chan struct{}, 100)
	answer := ws.PingHandler()
	ws.SetPingHandler(func(data string) error {
		pings <- struct{}{}
		return answer(data)
	})
	var seq uint64
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	want(t, ws, "a", 0, &seq)
	done := make(chan message, 1)
	go func() { done <- receive(t, ws) }()
	for range 3 {
		select {
		case <-pings:
		case <-time.After(time.Minute):
			t.Fatal("there are no pings: the connection has ended")
		}
	}
	f.view.set(func() { f.view.n = 1 })
	if m := <-done; m.Funnel.N != 1 {
		t.Errorf("%+v", m)
	}
}

func TestRefusedRequests(t *testing.T) {
	f := start(t, Config{Subscriptions: 2, Feeds: 2})
	ws := f.dial()
	for _, tc := range []struct{ text, id, field, code string }{
		{`nonsense`, "", "", "json"},
		{`[]`, "", "", "json"},
		{`{"op":"subscribe"}`, "", "id", "length"},
		{`{"op":"subscribe","id":"` + strings.Repeat("i", 65) + `"}`, strings.Repeat("i", 65), "id", "length"},
		{`{"op":"subscribe","id":7}`, "", "id", "type"},
		{`{"op":"dance","id":"a"}`, "a", "op", "op_unknown"},
		{`{"op":"subscribe","id":"a","view":"jobs"}`, "a", "view", "view_unknown"},
		{`{"op":"subscribe","id":"a","exclude_reclassifications":"yes"}`, "a", "exclude_reclassifications", "type"},
		{`{"op":"subscribe","id":"a","seq":-1,"epoch":"e"}`, "a", "seq", "type"},
		{`{"op":"subscribe","id":"a","perod":"7d"}`, "a", "perod", "member_unknown"},
		{`{"op":"subscribe","id":"a","Period":"7d"}`, "a", "Period", "member_unknown"},
		{`{"op":"subscribe","id":"a","source":"bad"}`, "a", "source", "bad"},
		{`{"op":"unsubscribe","id":"a"}`, "a", "id", "id_unknown"},
	} {
		send(t, ws, tc.text)
		if m := receive(t, ws); m.ID != tc.id || m.Error == nil || len(m.Error.Errors) != 1 ||
			m.Error.Errors[0].Field != tc.field || m.Error.Errors[0].Code != tc.code {
			t.Errorf("%s: %+v", tc.text, m)
		}
	}
	if err := ws.WriteMessage(websocket.BinaryMessage, []byte(`{"op":"subscribe","id":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, ws); m.Error == nil {
		t.Errorf("%+v", m)
	}
	var seq uint64
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	want(t, ws, "a", 0, &seq)
	send(t, ws, `{"op":"subscribe","id":"a","period":"7d"}`)
	if m := receive(t, ws); m.Error == nil || m.Error.Errors[0].Code != "id_in_use" {
		t.Errorf("%+v", m)
	}
	seq = 0
	send(t, ws, `{"op":"subscribe","id":"b","period":"7d"}`)
	want(t, ws, "b", 0, &seq)
	send(t, ws, `{"op":"subscribe","id":"c"}`)
	if m := receive(t, ws); m.Error == nil || m.Error.Status != http.StatusTooManyRequests {
		t.Errorf("too many subscriptions: %+v", m)
	}
	other := f.dial()
	send(t, other, `{"op":"subscribe","id":"a","period":"30d"}`)
	if m := receive(t, other); m.Error == nil || m.Error.Status != http.StatusServiceUnavailable {
		t.Errorf("too many feeds: %+v", m)
	}
	send(t, other, `{"op":"subscribe","id":"a","pad":"`+strings.Repeat("x", maxMessage)+`"}`)
	if _, _, err := other.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("a message that is too large: %v", err)
	}
}

// TestFailingView: subscribers are told once, and get a snapshot when it works
// again.
func TestFailingView(t *testing.T) {
	f := start(t, Config{})
	f.view.fail = errors.New("no database")
	ws := f.dial()
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	if m := receive(t, ws); m.ID != "a" || m.Error == nil || m.Error.Status != http.StatusServiceUnavailable {
		t.Fatalf("%+v", m)
	}
	f.view.set(func() { f.view.fail = nil })
	var seq uint64
	want(t, ws, "a", 0, &seq)
}

func TestConnections(t *testing.T) {
	f := start(t, Config{Connections: 1, Origins: []string{"https://dashboard.example/"}})
	host := strings.TrimPrefix(f.url, "ws://")
	for origin, status := range map[string]int{
		"https://evil.example":          http.StatusForbidden,
		"null":                          http.StatusForbidden,
		"http://" + host + ".evil.com":  http.StatusForbidden,
		"http://" + host:                http.StatusSwitchingProtocols,
		"https://dashboard.example":     http.StatusSwitchingProtocols,
		"":                              http.StatusSwitchingProtocols,
		"https://dashboard.example.com": http.StatusForbidden,
	} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		ws, resp, err := websocket.DefaultDialer.Dial(f.url, header)
		if resp == nil || resp.StatusCode != status {
			t.Errorf("origin %q: %v, %v", origin, resp, err)
		}
		if err != nil {
			continue
		}
		if _, resp, err := websocket.DefaultDialer.Dial(f.url, nil); err == nil ||
			resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a connection too many: %v, %v", resp, err)
		}
		_ = ws.Close()
		f.gone(0)
	}
	resp, err := http.Get("http://" + host)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("no upgrade: %s", resp.Status)
	}
}

func TestDraining(t *testing.T) {
	f := start(t, Config{})
	ws := f.dial()
	var seq uint64
	send(t, ws, `{"op":"subscribe","id":"a"}`)
	want(t, ws, "a", 0, &seq)
	close(f.draining)
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("%v", err)
	}
	f.gone(0)
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"op":"subscribe","id":"a","view":"funnel","period":"today","source":"","tz":"UTC"}`))
	f.Add([]byte(`{"op":"unsubscribe","id":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		hub, err := New(Config{}, []View{newCounter().view()}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(t.Context(), hub)
		here, there := net.Pipe()
		defer there.Close()
		defer here.Close()
		c.socket = newSocket(here, c.writer.start)
		id, problem := c.handle(websocket.TextMessage, data)
		if problem == nil && !c.unsubscribe(id) {
			t.Fatalf("%s: neither a problem nor a subscription", data)
		}
		hub.Wait()
	})
}

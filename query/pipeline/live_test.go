package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// LiveSnapshot is a message with the state of a funnel.
type LiveSnapshot struct {
	ID     string
	Seq    uint64
	Epoch  string
	Funnel Funnel
}

const secret = "0123456789abcdef0123456789abcdef"

func (r *rig) dial(query string, header http.Header) (*websocket.Conn, *http.Response, error) {
	return websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.URL, "http")+"/api/v1/live"+query, header)
}

func snapshot(tb testing.TB, ws *websocket.Conn) LiveSnapshot {
	tb.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
	_, data, err := ws.ReadMessage()
	if err != nil {
		tb.Fatal(err)
	}
	var m LiveSnapshot
	if err := json.Unmarshal(data, &m); err != nil || len(m.Funnel.Stages) == 0 {
		tb.Fatalf("%s: %v", data, err)
	}
	return m
}

// TestLive: what is announced reaches the subscribers of its views, and those
// only, with the numbers that GET /funnel has.
func TestLive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	r := newRig(t, options{before: func(r *rig) {
		viewtest.Checkpoint(t.Context(), t, r.js, r.writer.Write(viewtest.Draw(rng, noon, 300)...).To)
	}})
	ws, _, err := r.dial("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	for _, m := range []string{
		`{"op":"subscribe","id":"all","view":"funnel","period":"30d","source":"","tz":"UTC"}`,
		`{"op":"subscribe","id":"one","view":"funnel","period":"today","source":"source-1","tz":"Asia/Kathmandu"}`,
	} {
		if err := ws.WriteMessage(websocket.TextMessage, []byte(m)); err != nil {
			t.Fatal(err)
		}
		snapshot(t, ws)
	}
	for i := range 5 {
		for _, source := range []string{"source-0", "source-1"} {
			event := viewtest.Draw(rng, noon, 1)[0]
			event.SourceName, event.OccurredAt = source, noon.Add(time.Duration(i)*time.Millisecond)
			d := r.writer.Write(event)
			viewtest.Announce(t, r.nc, d)
			left := map[string]bool{"all": true, "one": source == "source-1"}
			for left["all"] || left["one"] {
				m := snapshot(t, ws)
				if !left[m.ID] {
					t.Fatalf("no news for %s: %+v", m.ID, m)
				}
				left[m.ID] = false
				want := r.recount(m.Funnel.Source, m.Funnel.From, noon.Add(time.Hour))
				if m.Funnel.Stream.FoldedSeq != d.To || !reflect.DeepEqual(m.Funnel.Stages, want) {
					t.Fatalf("%s: %+v, want %+v", m.ID, m.Funnel, want)
				}
			}
		}
	}
}

// TestLiveGetsOld: readers are told when what they see lacks messages that have
// waited for seconds, though no number changes.
func TestLiveGetsOld(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	r := newRig(t, options{})
	ws, _, err := r.dial("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","id":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if since := snapshot(t, ws).Funnel.Stream.StaleSince; since != nil {
		t.Fatalf("stale since %s with an empty stream", since)
	}
	ack, err := r.js.Publish(t.Context(), stream.EventSubject("crawled", [32]byte{}), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	got := snapshot(t, ws).Funnel.Stream
	if got.StaleSince == nil || got.Behind != 1 {
		t.Fatalf("%+v, want stale", got)
	}
	viewtest.Announce(t, r.nc, r.writer.Write(viewtest.Draw(rand.New(rand.NewPCG(1, 2)), noon, int(ack.Sequence))...))
	if got := snapshot(t, ws).Funnel.Stream; got.StaleSince != nil || got.Behind != 0 {
		t.Fatalf("%+v, want what is counted to be current", got)
	}
}

// TestTokens: where there is a secret, readers need a token.
func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{secret: secret, views: []live.View{secrets()}})
	for name, test := range map[string]func(*testing.T, *rig){
		"access": testAccess, "event streams": testEventStreamAccess, "expiry": testTokenExpires,
		"expiry of an event stream": testEventStreamExpires,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, r) })
	}
}

// mint makes a token that lives for some seconds.
func mint(t *testing.T, life time.Duration, scopes ...auth.Scope) string {
	t.Helper()
	token, err := auth.Mint(secret, "tester", scopes, life)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// testAccess: every way to hand a token over works.
func testAccess(t *testing.T, r *rig) {
	read, write := mint(t, time.Hour, auth.Read), mint(t, time.Hour, auth.EventsWrite)
	for name, tc := range map[string]struct {
		query  string
		header http.Header
		status int
	}{
		"none":   {"", nil, http.StatusUnauthorized},
		"header": {"", http.Header{"Authorization": {"Bearer " + read}}, http.StatusSwitchingProtocols},
		"query":  {"?access_token=" + read, nil, http.StatusSwitchingProtocols},
		"subprotocol": {
			"", http.Header{"Sec-Websocket-Protocol": {"bearer, " + read}}, http.StatusSwitchingProtocols,
		},
		"another scope": {"?access_token=" + write, nil, http.StatusForbidden},
		"another origin": {
			"?access_token=" + read, http.Header{"Origin": {"https://evil.example"}}, http.StatusForbidden,
		},
		"spoilt":               {"?access_token=" + read + "x", nil, http.StatusUnauthorized},
		"spoilt subprotocol":   {"", http.Header{"Sec-Websocket-Protocol": {"bearer, x"}}, http.StatusUnauthorized},
		"token as subprotocol": {"", http.Header{"Sec-Websocket-Protocol": {read}}, http.StatusUnauthorized},
	} {
		ws, resp, err := r.dial(tc.query, tc.header)
		if resp == nil || resp.StatusCode != tc.status {
			t.Errorf("%s: %v, %v", name, resp, err)
			continue
		}
		if ws != nil {
			if name == "subprotocol" && ws.Subprotocol() != auth.Subprotocol {
				t.Errorf("answered with the subprotocol %q", ws.Subprotocol())
			}
			_ = ws.Close()
		}
	}
	for _, path := range []string{"/funnel", "/events", "/events/export", "/funnel/sources", "/articles/x/journey"} {
		var p map[string]any
		if status := r.For(t).Get(path, nil, &p); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, status)
		}
	}
}

// testEventStreamAccess: a token in the query is taken by /live/sse as by /live,
// and by nothing else.
func testEventStreamAccess(t *testing.T, r *rig) {
	read, write, admin := mint(t, time.Hour, auth.Read), mint(t, time.Hour, auth.EventsWrite), mint(
		t, time.Hour, auth.Admin,
	)
	for name, tc := range map[string]struct {
		path   string
		header http.Header
		status int
	}{
		"none":          {"/live/sse", nil, http.StatusUnauthorized},
		"header":        {"/live/sse", http.Header{"Authorization": {"Bearer " + read}}, http.StatusOK},
		"query":         {"/live/sse?access_token=" + read, nil, http.StatusOK},
		"another scope": {"/live/sse?access_token=" + write, nil, http.StatusForbidden},
		"another origin": {
			"/live/sse?access_token=" + read, http.Header{"Origin": {"https://evil.example"}}, http.StatusForbidden,
		},
		"spoilt": {"/live/sse?access_token=" + read + "x", nil, http.StatusUnauthorized},
		"subprotocol": {
			"/live/sse", http.Header{"Sec-Websocket-Protocol": {"bearer, " + read}}, http.StatusUnauthorized,
		},
		"lag":            {"/live/sse?view=lag&access_token=" + read, nil, http.StatusOK},
		"view of admins": {"/live/sse?view=secrets&access_token=" + read, nil, http.StatusForbidden},
		"an admin":       {"/live/sse?view=secrets&access_token=" + admin, nil, http.StatusOK},
		"no upgrade":     {"/live?access_token=" + read, nil, http.StatusUnauthorized},
		"elsewhere":      {"/funnel?access_token=" + read, nil, http.StatusUnauthorized},
		"elsewhere, refused": {
			"/funnel?access_token=" + read, http.Header{"Authorization": {"Bearer " + read}}, http.StatusBadRequest,
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/api/v1"+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(req.Header, tc.header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != tc.status {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		cancel()
	}
}

// testEventStreamExpires: an event stream ends when the token does that opened
// it.
func testEventStreamExpires(t *testing.T, r *rig) {
	get := func(life time.Duration) *http.Response {
		resp, err := http.Get(r.URL + "/api/v1/live/sse?access_token=" + mint(t, life, auth.Read))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	resp := get(2 * time.Second)
	for life := 4 * time.Second; resp.StatusCode != http.StatusOK; life *= 2 { // it had expired before it was read
		if resp.StatusCode != http.StatusUnauthorized || life > time.Minute {
			t.Fatal(resp.Status)
		}
		resp = get(life)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// Secret is the state of a view for admins.
type Secret struct{ Number int }

func secrets() live.View {
	return live.Polled(live.View{Name: "secrets", Summary: "for admins", Scope: auth.Admin}, "away",
		func(context.Context) (Secret, error) { return Secret{7}, nil })
}

// TestLiveNotes: the live view of a source that nobody has sent says so, as GET
// /funnel does, until somebody has.
func TestLiveNotes(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	e := viewtest.Draw(rand.New(rand.NewPCG(1, 2)), noon, 1)
	e[0].SourceName, e[0].OccurredAt = "example_com", noon
	r.write(e...)
	ws, _, err := r.dial("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	subscribe := func(id, source string) Funnel {
		text := fmt.Sprintf(`{"op":"subscribe","id":%q,"period":"24h","source":%q}`, id, source)
		if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return snapshot(t, ws).Funnel
	}
	var want Funnel
	r.Must("/funnel", viewtest.Values("period", "24h", "source", "exmple_com"), &want)
	got := subscribe("a", "exmple_com")
	if len(want.Notes) != 1 || !reflect.DeepEqual(got.Notes, want.Notes) || got.Notes[0].Code != "source_unknown" {
		t.Errorf("%+v, want %+v", got.Notes, want.Notes)
	}
	if got := subscribe("b", "example_com"); got.Notes != nil {
		t.Errorf("of a known source: %+v", got.Notes)
	}
	e[0].SourceName = "exmple_com"
	r.write(e...)
	for got := snapshot(t, ws); got.ID != "a" || got.Funnel.Notes != nil; got = snapshot(t, ws) {
	}
}

// TestLiveLag: the view of slot groups shows what the mirror has counted.
func TestLiveLag(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{before: func(r *rig) {
		d := r.writer.Write(viewtest.Draw(rand.New(rand.NewPCG(1, 2)), noon, 3)...)
		viewtest.Checkpoint(t.Context(), t, r.js, d.To)
	}})
	for range 5 {
		if _, err := r.js.Publish(t.Context(), "events.crawled.00", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	ws, _, err := r.dial("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","id":"a","view":"lag"}`)); err != nil {
		t.Fatal(err)
	}
	var m struct{ Lag LiveLag }
	err = ws.ReadJSON(&m)
	if err != nil || m.Lag.LastSeq != 5 || len(m.Lag.Groups) != 1 || m.Lag.Groups[0].FoldedSeq != 3 ||
		m.Lag.Groups[0].EventsBehind != 2 {
		t.Errorf("%+v, %v", m, err)
	}
}

// testDescription: what is served is described.
func testDescription(t *testing.T, r *rig) {
	resp, err := http.Get(r.URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/funnel", "/events", "/events/export", "/funnel/sources", "/articles/{url_hash}/journey", "/live", "/live/sse",
	} {
		if doc.Paths[path]["get"] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	for _, name := range []string{
		"Funnel", "EventsPage", "Journey", "Sources", "Request", "LiveSnapshot", "LiveError", "LiveLag",
	} {
		if doc.Components.Schemas[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
	for _, c := range r.svc.Checks() {
		if err := c.Probe(t.Context()); err != nil {
			t.Errorf("check %s: %v", c.Name, err)
		}
	}
}

// BenchmarkPush is the time from a delta's announcement to its snapshot at a
// WebSocket.
func BenchmarkPush(b *testing.B) {
	r := newRig(b, options{})
	ws, _, err := r.dial("", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer ws.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	request := []byte(`{"op":"subscribe","id":"a","period":"24h"}`)
	if err := ws.WriteMessage(websocket.TextMessage, request); err != nil {
		b.Fatal(err)
	}
	snapshot(b, ws)
	for b.Loop() {
		b.StopTimer()
		e := viewtest.Draw(rng, noon, 1)
		e[0].OccurredAt = noon
		d := r.writer.Write(e...)
		time.Sleep(100 * time.Millisecond) // a benchmark of an idle system
		b.StartTimer()
		viewtest.Announce(b, r.nc, d)
		snapshot(b, ws)
	}
}

// TestReconnect: what is announced while the connection is down is not missed.
// How long it takes to be seen depends on how soon the client of NATS finds that
// the server is there again, and begins its watch of the checkpoints anew.
func TestReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	rng := rand.New(rand.NewPCG(1, 2))
	r.write(viewtest.Draw(rng, noon, 10)...)
	ws, _, err := r.dial("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	request := []byte(`{"op":"subscribe","id":"a","period":"30d"}`)
	if err := ws.WriteMessage(websocket.TextMessage, request); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, ws).Funnel.Stages
	r.nats.Stop()
	sameFunnel(t, r, viewtest.Values("period", "30d"))
	e := viewtest.Draw(rng, noon, 1)
	e[0].OccurredAt = noon
	unheard := r.writer.Write(e...)
	r.nats.Start()
	viewtest.Checkpoint(t.Context(), t, r.nats.JetStream(), unheard.To)
	want := r.recount("", noon.AddDate(0, 0, -30), noon.Add(time.Hour))
	for {
		_ = ws.SetReadDeadline(time.Now().Add(5 * time.Minute))
		var m LiveSnapshot
		if err := ws.ReadJSON(&m); err != nil {
			t.Fatal(err)
		}
		switch {
		case reflect.DeepEqual(m.Funnel.Stages, want):
			return
		case m.Funnel.Stages != nil && !reflect.DeepEqual(m.Funnel.Stages, before): // nil: why it is not known for now
			t.Fatalf("%+v, after %+v and before %+v", m.Funnel.Stages, before, want)
		}
	}
}

// testTokenExpires: a connection ends when the token does that opened it.
func testTokenExpires(t *testing.T, r *rig) {
	ws, resp, err := r.dial("?access_token="+mint(t, 2*time.Second, auth.Read), nil)
	for life := 4 * time.Second; err != nil; life *= 2 { // it had expired before it was read
		if resp == nil || resp.StatusCode != http.StatusUnauthorized || life > time.Minute {
			t.Fatal(err)
		}
		ws, resp, err = r.dial("?access_token="+mint(t, life, auth.Read), nil)
	}
	defer ws.Close()
	_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
	_, _, err = ws.ReadMessage()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation ||
		closed.Text != "the token has expired" {
		t.Errorf("ended with %v", err)
	}
}

// TestLiveWithoutReclassifications: a view can leave them out.
func TestLiveWithoutReclassifications(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.write(viewtest.Courses(rand.New(rand.NewPCG(1, 2)), noon, 30)...)
	ws, _, err := r.dial("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	subscribe := func(text string) {
		if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	free := takeAllPlaces(t, r.svc.counting, countsAtOnce)
	subscribe(`{"op":"subscribe","id":"a","period":"30d","exclude_reclassifications":true}`)
	got := snapshot(t, ws).Funnel
	free()
	var all, without Funnel
	r.Must("/funnel", viewtest.Values("period", "30d"), &all)
	r.Must("/funnel", viewtest.Values("period", "30d", "exclude_reclassifications", "true"), &without)
	if !got.SkipReclassified || !reflect.DeepEqual(got.Stages, without.Stages) ||
		all.Stages[2].Count <= got.Stages[2].Count {
		t.Errorf("%+v, want %+v; with all of them %+v", got, without, all)
	}
	subscribe(`{"op":"subscribe","id":"b","exclude_reclassifications":"yes"}`)
	_, data, err := ws.ReadMessage()
	if err != nil || !strings.Contains(string(data), "must be a bool") {
		t.Errorf("%s, %v", data, err)
	}
}

package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/views"
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
	return websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.http.URL, "http")+"/api/v1/live"+query, header)
}

func snapshot(tb testing.TB, ws *websocket.Conn) LiveSnapshot {
	tb.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(20 * time.Second))
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
	rng := rand.New(rand.NewPCG(1, 2))
	r := newRig(t, Config{}, "", func(r *rig) {
		viewtest.Checkpoint(t.Context(), t, r.js, r.writer.Write(draw(rng, noon, 300)...).To)
	})
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
			event := draw(rng, noon, 1)[0]
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
				if want := r.recount(m.Funnel.Source, m.Funnel.From, noon.Add(time.Hour)); m.Funnel.Stream.FoldedSeq != d.To || !reflect.DeepEqual(m.Funnel.Stages, want) {
					t.Fatalf("%s: %+v, want %+v", m.ID, m.Funnel, want)
				}
			}
		}
	}
}

// TestAccess: every way to hand a token over works, and none is needed where
// there is no secret.
func TestAccess(t *testing.T) {
	r := newRig(t, Config{}, secret, nil)
	mint := func(scopes ...auth.Scope) string {
		token, err := auth.Mint(secret, "tester", scopes, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	read, write := mint(auth.Read), mint(auth.EventsWrite)
	for name, tc := range map[string]struct {
		query  string
		header http.Header
		status int
	}{
		"none":                 {"", nil, http.StatusUnauthorized},
		"header":               {"", http.Header{"Authorization": {"Bearer " + read}}, http.StatusSwitchingProtocols},
		"query":                {"?access_token=" + read, nil, http.StatusSwitchingProtocols},
		"subprotocol":          {"", http.Header{"Sec-Websocket-Protocol": {"bearer, " + read}}, http.StatusSwitchingProtocols},
		"another scope":        {"?access_token=" + write, nil, http.StatusForbidden},
		"another origin":       {"?access_token=" + read, http.Header{"Origin": {"https://evil.example"}}, http.StatusForbidden},
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
	for _, path := range []string{"/funnel", "/events", "/sources", "/articles/x/journey"} {
		var p map[string]any
		if status := r.get(path, nil, &p); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, status)
		}
	}
}

// TestEventStreamAccess: a token in the query is taken by /live/sse as by /live,
// and by nothing else.
func TestEventStreamAccess(t *testing.T) {
	r := newRig(t, Config{Views: []live.View{secrets()}}, secret, nil)
	mint := func(scopes ...auth.Scope) string {
		token, err := auth.Mint(secret, "tester", scopes, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	read, write, admin := mint(auth.Read), mint(auth.EventsWrite), mint(auth.Admin)
	for name, tc := range map[string]struct {
		path   string
		header http.Header
		status int
	}{
		"none":               {"/live/sse", nil, http.StatusUnauthorized},
		"header":             {"/live/sse", http.Header{"Authorization": {"Bearer " + read}}, http.StatusOK},
		"query":              {"/live/sse?access_token=" + read, nil, http.StatusOK},
		"another scope":      {"/live/sse?access_token=" + write, nil, http.StatusForbidden},
		"another origin":     {"/live/sse?access_token=" + read, http.Header{"Origin": {"https://evil.example"}}, http.StatusForbidden},
		"spoilt":             {"/live/sse?access_token=" + read + "x", nil, http.StatusUnauthorized},
		"subprotocol":        {"/live/sse", http.Header{"Sec-Websocket-Protocol": {"bearer, " + read}}, http.StatusUnauthorized},
		"lag":                {"/live/sse?view=lag&access_token=" + read, nil, http.StatusOK},
		"view of admins":     {"/live/sse?view=secrets&access_token=" + read, nil, http.StatusForbidden},
		"an admin":           {"/live/sse?view=secrets&access_token=" + admin, nil, http.StatusOK},
		"no upgrade":         {"/live?access_token=" + read, nil, http.StatusUnauthorized},
		"elsewhere":          {"/funnel?access_token=" + read, nil, http.StatusUnauthorized},
		"elsewhere, refused": {"/funnel?access_token=" + read, http.Header{"Authorization": {"Bearer " + read}}, http.StatusBadRequest},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.http.URL+"/api/v1"+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for key, values := range tc.header {
			req.Header[key] = values
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != tc.status {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		cancel()
	}
	// It ends with the token.
	short, err := auth.Mint(secret, "tester", []auth.Scope{auth.Read}, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(r.http.URL + "/api/v1/live/sse?access_token=" + short)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", resp, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// secrets is a view for admins.
func secrets() live.View {
	v := views.QueuesOf(noQueues{})
	v.Name, v.Scope = "secrets", auth.Admin
	return v
}

type noQueues struct{}

func (noQueues) Summary(context.Context, func(kind, key int32, n int64)) ([]queue.State, error) {
	return nil, nil
}

// TestLiveNotes: the live view of a source that nobody has sent says so, as GET
// /funnel does, until somebody has.
func TestLiveNotes(t *testing.T) {
	r := newRig(t, Config{}, "", nil)
	e := draw(rand.New(rand.NewPCG(1, 2)), noon, 1)
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
	r.must("/funnel", values("period", "24h", "source", "exmple_com"), &want)
	if got := subscribe("a", "exmple_com"); len(want.Notes) != 1 || !reflect.DeepEqual(got.Notes, want.Notes) || got.Notes[0].Code != "source_unknown" {
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
	r := newRig(t, Config{}, "", func(r *rig) {
		viewtest.Checkpoint(t.Context(), t, r.js, r.writer.Write(draw(rand.New(rand.NewPCG(1, 2)), noon, 3)...).To)
	})
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
	var m struct{ Lag views.LiveLag }
	if err := ws.ReadJSON(&m); err != nil || m.Lag.LastSeq != 5 || len(m.Lag.Groups) != 1 || m.Lag.Groups[0].FoldedSeq != 3 || m.Lag.Groups[0].EventsBehind != 2 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestDescription: what is served is described.
func TestDescription(t *testing.T) {
	r := newRig(t, Config{}, "", nil)
	resp, err := http.Get(r.http.URL + "/openapi.json")
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
	for _, path := range []string{"/funnel", "/events", "/sources", "/articles/{url_hash}/journey", "/live", "/live/sse"} {
		if doc.Paths[path]["get"] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	for _, name := range []string{"Funnel", "EventsPage", "Journey", "Sources", "Request", "LiveSnapshot", "LiveError", "LiveLag"} {
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
	r := newRig(b, Config{}, "", nil)
	ws, _, err := r.dial("", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer ws.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","id":"a","period":"24h"}`)); err != nil {
		b.Fatal(err)
	}
	snapshot(b, ws)
	for b.Loop() {
		b.StopTimer()
		e := draw(rng, noon, 1)
		e[0].OccurredAt = noon
		d := r.writer.Write(e...)
		time.Sleep(100 * time.Millisecond) // a benchmark of an idle system
		b.StartTimer()
		viewtest.Announce(b, r.nc, d)
		snapshot(b, ws)
	}
}

// TestReconnect: what is announced while the connection is down is not missed.
func TestReconnect(t *testing.T) {
	r := newRig(t, Config{}, "", nil)
	rng := rand.New(rand.NewPCG(1, 2))
	r.write(draw(rng, noon, 10)...)
	ws, _, err := r.dial("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","id":"a","period":"30d"}`)); err != nil {
		t.Fatal(err)
	}
	snapshot(t, ws)
	r.nats.Stop()
	sameFunnel(t, r, values("period", "30d"))
	e := draw(rng, noon, 1)
	e[0].OccurredAt = noon
	unheard := r.writer.Write(e...)
	r.nats.Start()
	viewtest.Checkpoint(t.Context(), t, r.nats.JetStream(), unheard.To)
	if got, want := snapshot(t, ws).Funnel, r.recount("", noon.AddDate(0, 0, -30), noon.Add(time.Hour)); !reflect.DeepEqual(got.Stages, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTokenExpires: a connection ends when the token does that opened it.
func TestTokenExpires(t *testing.T) {
	r := newRig(t, Config{}, secret, nil)
	token, err := auth.Mint(secret, "tester", []auth.Scope{auth.Read}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ws, _, err := r.dial("?access_token="+token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	_ = ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, _, err = ws.ReadMessage()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation || closed.Text != "the token has expired" {
		t.Errorf("ended with %v", err)
	}
}

// TestLiveWithoutReclassifications: a view can leave them out.
func TestLiveWithoutReclassifications(t *testing.T) {
	r := newRig(t, Config{}, "", nil)
	r.write(courses(rand.New(rand.NewPCG(1, 2)), noon, 30)...)
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
	for range countsAtOnce { // requests have taken all of their places
		r.svc.counting <- struct{}{}
	}
	subscribe(`{"op":"subscribe","id":"a","period":"30d","exclude_reclassifications":true}`)
	got := snapshot(t, ws).Funnel
	for range countsAtOnce {
		<-r.svc.counting
	}
	var all, without Funnel
	r.must("/funnel", values("period", "30d"), &all)
	r.must("/funnel", values("period", "30d", "exclude_reclassifications", "true"), &without)
	if !got.SkipReclassified || !reflect.DeepEqual(got.Stages, without.Stages) || all.Stages[2].Count <= got.Stages[2].Count {
		t.Errorf("%+v, want %+v; with all of them %+v", got, without, all)
	}
	subscribe(`{"op":"subscribe","id":"b","exclude_reclassifications":"yes"}`)
	_, data, err := ws.ReadMessage()
	if err != nil || !strings.Contains(string(data), "must be a bool") {
		t.Errorf("%s, %v", data, err)
	}
}

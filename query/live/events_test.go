package live

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// stream is a reader of server-sent events.
type stream struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
	id   string // of the last event
	end  context.CancelFunc
}

func (f *fixture) events(query string) string {
	return "http" + strings.TrimPrefix(f.url, "ws") + "/sse?" + query
}

// stream opens an event stream, with the id of the last event unless that is
// empty.
func (f *fixture) stream(query, last string) *stream {
	f.t.Helper()
	ctx, end := context.WithTimeout(f.t.Context(), time.Minute)
	f.t.Cleanup(end)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.events(query), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		f.t.Fatalf("%s, %v", resp.Status, resp.Header)
	}
	return &stream{f.t, resp, bufio.NewReader(resp.Body), "", end}
}

// block reads up to the next empty line.
func (s *stream) block() (lines []string, err error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return lines, err
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			return lines, nil
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			s.id = id
		}
		lines = append(lines, line)
	}
}

// next reads the next event that has data, as browsers do.
func (s *stream) next() (m message) {
	s.t.Helper()
	for {
		lines, err := s.block()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, line := range lines {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					s.t.Fatalf("%s: %v", data, err)
				}
				return m
			}
		}
	}
}

// nothingNew reads until it is said that nothing is new.
func (s *stream) nothingNew() {
	s.t.Helper()
	for {
		lines, err := s.block()
		if err != nil || strings.Contains(strings.Join(lines, "\n"), "data:") {
			s.t.Fatalf("%q, %v", lines, err)
		}
		if len(lines) > 0 && lines[0] == ": nothing new" {
			return
		}
	}
}

// TestEvents: an event stream has what a WebSocket has, and a reader that comes
// again with the id of its last event gets nothing new, or a whole snapshot.
func TestEvents(t *testing.T) {
	f := start(t, Config{})
	s := f.stream("view=funnel&period=today&source=s&tz=UTC&exclude_reclassifications=false", "")
	for n := range 3 {
		f.view.set(func() { f.view.n = n })
		for m := s.next(); m.Funnel.N != n || m.Funnel.Source != "s" || m.ID != ""; m = s.next() {
			if m.Funnel.N > n || s.id != fmt.Sprintf("%s:%d", m.Epoch, m.Seq) {
				t.Fatalf("event %s: %+v", s.id, m)
			}
		}
	}
	last := s.id
	s.end()
	f.connectedAre(0)
	s = f.stream("source=s", last)
	if s.nothingNew(); s.id != last {
		t.Errorf("nothing is new after %s, and the id is %s", last, s.id)
	}
	f.view.set(func() { f.view.n = 3 })
	if m := s.next(); m.Funnel.N != 3 || s.id == last {
		t.Errorf("%s: %+v", s.id, m)
	}
	newer := f.stream("source=s&last_event_id="+last, "")
	if m := newer.next(); m.Funnel == nil || m.Funnel.N != 3 || newer.id != s.id {
		t.Errorf("something is new after %s, and one gets %s: %+v", last, newer.id, m)
	}
	for _, strange := range []string{
		"x:1", "x", ":", strings.Split(last, ":")[0] + ":99", last + "0", strings.Repeat("x", 2000),
	} {
		if m := f.stream("source=s", strange).next(); m.Funnel == nil || m.Funnel.N != 3 {
			t.Errorf("after %.20s: %+v", strange, m)
		}
	}
}

// TestSocketAndEvents: the snapshot of a WebSocket's message is good for an event
// stream, and the other way round.
func TestSocketAndEvents(t *testing.T) {
	f := start(t, Config{})
	ws := f.dial()
	send(t, ws, `{"op":"subscribe","id":"a","epoch":""}`)
	m := receive(t, ws)
	s := f.stream("", snapshotID{m.Epoch, m.Seq}.eventID())
	s.nothingNew()
	p := parseEventID(s.id)
	if _, got := f.again(p.epoch, p.seq); !got.Unchanged {
		t.Errorf("%+v", got)
	}
}

func TestRefusedEvents(t *testing.T) {
	f := start(t, Config{Connections: 1, Origins: []string{"https://dashboard.example"}})
	for _, tc := range []struct {
		query, origin string
		status        int
		field         string
		rule          string
	}{
		{"view=jobs", "", http.StatusBadRequest, "view", "the nearest is funnel"},
		{"sorce=a", "", http.StatusBadRequest, "sorce", "the nearest is source"},
		{"source=bad", "", http.StatusBadRequest, "source", "must be good"},
		{"exclude_reclassifications=perhaps", "", http.StatusBadRequest, "exclude_reclassifications", "true or false"},
		{"", "https://evil.example", http.StatusForbidden, "Origin", ""},
		{"", "null", http.StatusForbidden, "Origin", ""},
	} {
		req, _ := http.NewRequest(http.MethodGet, f.events(tc.query), nil)
		req.Header.Set("Origin", tc.origin)
		if tc.origin == "" {
			req.Header.Del("Origin")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var p httpapi.Problem
		err = json.NewDecoder(resp.Body).Decode(&p)
		if err != nil || resp.StatusCode != tc.status || len(p.Errors) != 1 ||
			p.Errors[0].Field != tc.field || !strings.Contains(p.Errors[0].Rule, tc.rule) ||
			resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s of %s: %s %+v, %v", tc.query, tc.origin, resp.Status, p, err)
		}
		_ = resp.Body.Close()
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.events(""), nil)
	req.Header.Set("Origin", "https://dashboard.example")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK ||
		resp.Header.Get("Access-Control-Allow-Origin") != "https://dashboard.example" {
		t.Fatalf("an allowed origin: %+v, %v", resp, err)
	}
	defer resp.Body.Close()
	second, err := http.Get(f.events(""))
	if err != nil || second.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("a connection too many: %+v, %v", second, err)
	}
	_ = second.Body.Close()
}

// TestEventsEnd: event streams end when the server does, and one that is only
// asked for its header ends at once.
func TestEventsEnd(t *testing.T) {
	f := start(t, Config{})
	head, err := http.Head(f.events(""))
	if err != nil || head.StatusCode != http.StatusOK {
		t.Fatalf("HEAD: %+v, %v", head, err)
	}
	s := f.stream("", "")
	s.next()
	close(f.draining)
	if _, err := io.Copy(io.Discard, s.in); err != nil {
		t.Errorf("ended with %v", err)
	}
	f.connectedAre(0)
}

// TestQuietEvents: a stream without news shows that it lives.
func TestQuietEvents(t *testing.T) {
	f := start(t, Config{PingInterval: 10 * time.Millisecond})
	s := f.stream("", "")
	s.next()
	for range 3 {
		if lines, err := s.block(); err != nil || len(lines) != 1 || lines[0] != ": quiet" {
			t.Fatalf("%q, %v", lines, err)
		}
	}
}

// TestDeafStreams holds bound 2 for event streams: readers that never read hold
// no backlog, keep nobody from the newest state, and are dropped.
func TestDeafStreams(t *testing.T) {
	f := start(t, Config{WriteTimeout: 2 * time.Second})
	f.view.pad = strings.Repeat("x", 64<<10)
	const deaf, changes = 20, 100
	addr := strings.TrimPrefix(f.url, "ws://")
	for range deaf {
		conn, err := (&net.Dialer{Control: smallWindow}).Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "GET /sse HTTP/1.1\r\nHost: %s\r\n\r\n", addr); err != nil {
			t.Fatal(err)
		}
	}
	f.connectedAre(deaf)
	good := f.stream("", "")
	good.next()
	before := inUse()
	for n := range changes {
		f.view.set(func() { f.view.n = n + 1 })
		for good.next().Funnel.N != n+1 {
		}
	}
	if more := int64(inUse()) - int64(before); more > deaf*(256<<10) { // a backlog would be of 128 MB
		t.Errorf("%d deaf readers hold %d KB more after %d changes", deaf, more>>10, changes)
	}
	f.connectedAre(1)
}

// TestFailingEvents: readers are told once why a view cannot be computed, and get
// a snapshot when it can.
func TestFailingEvents(t *testing.T) {
	f := start(t, Config{})
	f.view.fail = httpapi.NewProblem(http.StatusServiceUnavailable, "no database")
	s := f.stream("", "")
	if m := s.next(); m.Error == nil || m.Error.Detail != "no database" || s.id != "" {
		t.Fatalf("%+v", m)
	}
	f.view.set(func() { f.view.fail = nil })
	if m := s.next(); m.Funnel == nil || m.Seq != 1 {
		t.Errorf("%+v", m)
	}
}

// TestCurl: what everybody has reads a stream.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	f := start(t, Config{})
	cmd := exec.CommandContext(
		t.Context(), curl, "--silent", "--no-buffer", "--max-time", "60", f.events("view=funnel"),
	)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	s := &stream{t: t, in: bufio.NewReader(out)}
	for n := range 3 {
		f.view.set(func() { f.view.n = n })
		for s.next().Funnel.N != n {
		}
	}
}

// TestNewView: a view is one value. Registered, it is served over WebSockets and
// as events, by its own parameters and scope, and is described.
func TestNewView(t *testing.T) {
	v := newCounter()
	custom := View{
		Name: "weather", Summary: "the weather", State: reflect.TypeFor[number](), Scope: auth.Admin,
		Params: []Param{{Name: "place", Doc: "Where"}},
		Open: func(_ auth.Caller, p Values) (string, Source, *httpapi.Problem) {
			return p["place"], lines{counted{v, p["place"]}}, nil
		},
	}
	f := start(t, Config{}, custom)
	ws := f.dial()
	send(t, ws, `{"op":"subscribe","id":"a","view":"weather","place":"Bern"}`)
	var m struct{ Weather number }
	_, data, err := ws.ReadMessage()
	if err := json.Unmarshal(data, &m); err != nil || m.Weather.Source != "Bern" {
		t.Errorf("%s, %v", data, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	send(t, ws, `{"op":"subscribe","id":"b","view":"weather","plaze":"Bern"}`)
	rule := "must be one of op, id, view, epoch, seq, place; the nearest is place, for the view weather"
	if m := receive(t, ws); m.Error == nil || m.Error.Errors[0].Rule != rule {
		t.Errorf("%+v", m)
	}
	send(t, ws, `{"op":"subscribe","id":"b","view":"wheather"}`)
	if m := receive(t, ws); m.Error == nil ||
		m.Error.Errors[0].Rule != "must be one of funnel, weather; the nearest is weather" {
		t.Errorf("%+v", m)
	}
	s := f.stream("view=weather&place=Bern", "")
	for { // the state has more than one line, and each line of an event would be cut
		block, err := s.block()
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(block, "\n"); strings.Contains(text, "data:") {
			if !strings.Contains(text, `"weather":{"source":"Bern"`) {
				t.Errorf("%s", text)
			}
			break
		}
	}
	if _, p := f.hub.views.find("weather", auth.Caller{}); p == nil || p.Status != http.StatusForbidden {
		t.Errorf("without the scope: %+v", p)
	}
	for _, bad := range []View{
		{Name: "funnel", State: custom.State, Open: custom.Open},
		{Name: "seq", State: custom.State, Open: custom.Open},
		{Name: "a b", State: custom.State, Open: custom.Open},
		{Name: "no_open", State: custom.State},
		{Name: "no_state", Open: custom.Open},
		{Name: "taken", State: custom.State, Open: custom.Open, Params: []Param{{Name: "epoch"}}},
	} {
		if _, err := newRegistry([]View{newCounter().view(), bad}); err == nil {
			t.Errorf("the view %+v is registered", bad)
		}
	}
}

// lines is a source whose states have several lines.
type lines struct{ Source }

func (l lines) Snapshot(ctx context.Context) (Snapshot, error) {
	s, err := l.Source.Snapshot(ctx)
	s.Body = []byte(strings.ReplaceAll(string(s.Body), ",", ",\n"))
	return s, err
}

package emit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/client/publish"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

func crawled(n int) event.Event {
	return event.Event{
		ArticleURL: fmt.Sprintf("https://example.com/%d", n), SourceName: "s", Stage: "crawled",
		OccurredAt: time.Now().Add(-time.Minute), Metadata: map[string]any{"n": n},
	}
}

func crawledUpTo(n int) (events []event.Event) {
	for i := range n {
		events = append(events, crawled(i))
	}
	return events
}

// open opens a client that tries quickly.
func open(t testing.TB, o Options) *Client {
	t.Helper()
	o.Service, o.retry = "crawler", time.Millisecond
	if o.Breaker.OpenFor == 0 {
		o.Breaker.OpenFor = 10 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx)
	})
	return c
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOff(t *testing.T) {
	c := open(t, Options{})
	var none *Client
	e, ctx := crawled(1), t.Context()
	for _, c := range []*Client{c, none} {
		if n := testing.AllocsPerRun(1000, func() {
			if c.Emit(ctx, e) != nil || c.EmitBatch(ctx, []event.Event{e}) != nil {
				t.Error("it does something")
			}
		}); n > 2 {
			t.Errorf("%v allocations", n)
		}
		if h := c.Health(); h.Circuit != "off" || c.Flush(ctx) != nil || c.Close(ctx) != nil {
			t.Errorf("%+v", h)
		}
	}
}

// TestOutages holds invariant 2: Millrace is stopped and started under the
// client, and nothing is lost or doubled.
func TestOutages(t *testing.T) {
	for _, spool := range []bool{false, true} {
		t.Run(fmt.Sprintf("spool %v", spool), func(t *testing.T) {
			s := natstest.Start(t, stream.Config{})
			o := Options{URL: s.URL(), Timeout: 500 * time.Millisecond}
			if spool {
				o.Spool = t.TempDir()
			}
			c := open(t, o)
			for round := range 3 {
				for i := range 300 {
					must(t, c.Emit(t.Context(), crawled(round*1000+i)))
					if i == 100 {
						s.Stop()
					}
				}
				must(t, c.EmitBatch(t.Context(), crawledUpTo(round*1000 + 700)[round*1000+300:]))
				s.Start()
			}
			must(t, c.Flush(within(t)))
			if ids := s.IDs(); len(ids) != 2100 { // some twice, where an answer was lost
				t.Errorf("the stream has %d events, want 2100", len(ids))
			}
			if h := c.Health(); h.Waiting != 0 || h.WaitingBytes != 0 || h.Dropped != 0 || h.LastError != "" {
				t.Errorf("%+v", h)
			}
		})
	}
}

// TestSpoolOverRestart holds invariant 2 over the end of the client.
func TestSpoolOverRestart(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	o := Options{URL: s.URL(), Spool: t.TempDir(), Timeout: 200 * time.Millisecond}
	s.Stop()
	c := open(t, o)
	if _, err := Open(Options{URL: s.URL(), Service: "x", Spool: o.Spool}); err == nil ||
		!strings.Contains(err.Error(), "folder of its own") {
		t.Errorf("a second client takes the spool: %v", err)
	}
	late := crawled(900)
	late.OccurredAt = time.Now().Add(-event.MaxAge - time.Hour)
	must(t, c.EmitBatch(t.Context(), crawledUpTo(600)))
	c.tookLongAgo(t, late)
	must(t, c.Close(within(t)))
	if err := c.Emit(t.Context(), crawled(601)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	s.Start()
	o.Timeout = 5 * time.Second // a slow machine answers all the same
	c = open(t, o)
	if h := c.Health(); h.Waiting == 0 {
		t.Errorf("the spool is empty: %+v", h)
	}
	must(t, c.Close(within(t)))
	if ids := s.IDs(); len(ids) != 601 { // some twice, where an answer was lost
		t.Errorf("the stream has %d events, want 601", len(ids))
	}
	info, err := s.JetStream().Stream(t.Context(), stream.Events)
	must(t, err)
	subject := stream.EventSubject("crawled", recordOf(t, late).URLHash)
	m, err := info.GetLastMsgForSubject(t.Context(), subject)
	must(t, err)
	if !bytes.Contains(m.Data, []byte(`"backfilled":true`)) {
		t.Errorf("an event that waited too long is not marked: %s", m.Data)
	}
}

// TestDamagedSpool holds invariant 3: what a disk has lost is counted.
func TestDamagedSpool(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "queue"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "queue", fmt.Sprintf("%020d", 1)), []byte("\xffhalf an event"), 0o600))
	c := open(t, Options{URL: "nats://127.0.0.1:1", Spool: dir})
	if h := c.Health(); h.Dropped != 1 || testutil.ToFloat64(c.metrics.drops) != 1 ||
		testutil.ToFloat64(c.metrics.emits.WithLabelValues("error", "")) != 1 {
		t.Errorf("%+v", h)
	}
}

// carrier is a transport whose deliveries a test decides.
type carrier func(batch []item) ([]publish.Outcome, error)

func (c carrier) deliver(_ context.Context, batch []item) ([]publish.Outcome, error) { return c(batch) }
func (c carrier) close()                                                             {}

// TestAgesInDelivery: an event that is under way when an outage begins becomes
// too old in it, and is marked.
func TestAgesInDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Options{URL: "nats://127.0.0.1:1", Breaker: Breaker{OpenFor: time.Minute}})
		start, got := time.Now(), []item(nil)
		c.send = carrier(func(batch []item) ([]publish.Outcome, error) {
			if time.Since(start) < event.MaxAge+time.Hour {
				return nil, errors.New("away")
			}
			got = slices.Concat(got, batch)
			return slices.Repeat([]publish.Outcome{{Status: publish.Accepted}}, len(batch)), nil
		})
		must(t, c.Emit(t.Context(), crawled(1)))
		time.Sleep(2 * time.Hour) // takes no time in here
		must(t, c.Emit(t.Context(), crawled(2)))
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		must(t, c.Flush(ctx))
		if len(got) != 2 {
			t.Fatalf("%d events are delivered", len(got))
		}
		for i, want := range []bool{true, false} {
			var r event.Record
			if invalid := event.Decode(got[i].text, &r); invalid != nil || r.Meta.Backfilled != want ||
				!bytes.Equal(got[i].msg.Data, got[i].text) || got[i].msg.Event.Identity != r.Identity() {
				t.Errorf("event %d: %s %v", i+1, got[i].text, invalid)
			}
		}
	})
}

func recordOf(t *testing.T, e event.Event) event.Record {
	t.Helper()
	var r event.Record
	_, err := publish.Encode(e, "crawler", &r)
	must(t, err)
	return r
}

// fake is a Millrace over HTTP that can be made to fail.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	answer   func(path string, events []json.RawMessage) (status int, body string)
	got      map[string]int // by article URL
	requests []string
	token    string
}

func startFake(t *testing.T) *fake {
	f := &fake{got: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Events []json.RawMessage }
	var one json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
		return
	}
	_ = json.Unmarshal(one, &body)
	if strings.HasSuffix(r.URL.Path, "/events") {
		body.Events = []json.RawMessage{one}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests, f.token = append(f.requests, r.URL.Path), r.Header.Get("Authorization")
	status, text := 201, ""
	if f.answer != nil {
		status, text = f.answer(r.URL.Path, body.Events)
	}
	if status < 300 {
		for _, e := range body.Events {
			var v event.Event
			_ = json.Unmarshal(e, &v)
			f.got[v.ArticleURL]++
		}
	}
	switch {
	case status == 429:
		w.Header().Set("Retry-After", "1")
	case status < 300 && text == "" && strings.HasSuffix(r.URL.Path, "/events"):
		text = map[int]string{201: `{"status":"accepted"}`, 200: `{"status":"duplicate"}`}[status]
	case status < 300 && text == "":
		text = fmt.Sprintf(`{"accepted":%d}`, len(body.Events))
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func (f *fake) set(answer func(string, []json.RawMessage) (int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// TestBreaker holds what the breaker promises: five failures in a row open it,
// two successes after the wait close it, and it tells.
func TestBreaker(t *testing.T) {
	f := startFake(t)
	logs, tries := &lines{}, make(chan struct{}, 100)
	down := func(string, []json.RawMessage) (int, string) {
		tries <- struct{}{}
		return 503, `{"detail":"the event stream does not answer"}`
	}
	f.set(down)
	registry := prometheus.NewRegistry()
	c := open(t, Options{
		URL: f.URL, Registry: registry, Log: slog.New(slog.NewTextHandler(logs, nil)),
		Breaker: Breaker{OpenFor: time.Hour},
	})
	must(t, c.Emit(t.Context(), crawled(1)))
	for range 5 {
		<-tries
	}
	logs.await(t, "pipeline circuit breaker opened", "service=crawler", "target_url="+f.URL, "consecutive_failures=5")
	if h := c.Health(); h.Circuit != "open" || h.Waiting != 1 || !strings.Contains(h.LastError, "does not answer") {
		t.Errorf("%+v", h)
	}
	state := fmt.Sprintf("# HELP pipeline_circuit_state Circuit breaker: 0 closed, 1 open or half-open.\n# TYPE "+
		"pipeline_circuit_state gauge\npipeline_circuit_state{target_url=%q} 1\n", f.URL)
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(state), "pipeline_circuit_state"))
	must(t, c.Emit(t.Context(), crawled(2)))
	if err := c.Close(within(t)); !errors.Is(err, ErrUndelivered) || c.Health().Dropped != 2 || len(tries) != 0 {
		t.Errorf("closing while it is open: %v %+v, %d tries", err, c.Health(), len(tries))
	}
}

func TestBreakerCloses(t *testing.T) {
	f := startFake(t)
	logs := &lines{}
	failures := 6 // five open it, one fails when it is half-open
	f.set(func(string, []json.RawMessage) (int, string) {
		if failures--; failures >= 0 {
			return 500, ""
		}
		return 201, ""
	})
	registry := prometheus.NewRegistry()
	c := open(t, Options{
		URL: f.URL + "/api/pipeline/", Token: "secret", Registry: registry,
		Log: slog.New(slog.NewTextHandler(logs, nil)),
	})
	must(t, c.Emit(t.Context(), crawled(1)))
	must(t, c.Flush(within(t)))
	if h := c.Health(); h.Circuit != "half-open" {
		t.Errorf("after one success: %+v", h)
	}
	must(t, c.Emit(t.Context(), crawled(2)))
	must(t, c.Flush(within(t)))
	if h := c.Health(); h.Circuit != "closed" {
		t.Errorf("after two successes: %+v", h)
	}
	logs.await(t, "pipeline circuit breaker closed")
	if f.requests[0] != "/api/pipeline/api/v1/events" || f.token != "Bearer secret" || len(f.requests) != 8 {
		t.Errorf("%v %s", f.requests, f.token)
	}
	for status, want := range map[string]float64{"success": 2, "error": 6} { // each failed attempt, and each delivery
		if got := testutil.ToFloat64(c.metrics.emits.WithLabelValues(status, "crawled")); got != want {
			t.Errorf("%s: %v, want %v", status, got, want)
		}
	}
	if n, err := testutil.GatherAndCount(registry,
		"pipeline_emit_duration_seconds", "pipeline_emit_dropped_total"); err != nil || n != 2 {
		t.Errorf("%d metrics, %v", n, err)
	}
	if _, err := newMetrics(registry, "http://elsewhere"); err != nil {
		t.Error("a second client on the registry:", err)
	}
}

// TestNeverWaits holds invariant 1: a Millrace that hangs keeps no caller, and
// what does not fit is dropped and counted.
func TestNeverWaits(t *testing.T) {
	hang, asked := make(chan struct{}), make(chan struct{}, 100)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-hang }))
	defer s.Close()
	defer close(hang)
	registry, logs := prometheus.NewRegistry(), &lines{}
	c := open(t, Options{
		URL: s.URL, Buffer: 10, Registry: registry, Log: slog.New(slog.NewTextHandler(logs, nil)),
		Timeout: time.Hour,
	})
	must(t, c.EmitBatch(t.Context(), crawledUpTo(10)))
	<-asked
	if err := c.Emit(t.Context(), crawled(11)); !errors.Is(err, ErrDropped) {
		t.Error(err)
	}
	if err := c.EmitBatch(t.Context(), crawledUpTo(3)); !errors.Is(err, ErrDropped) ||
		!strings.Contains(err.Error(), "3 of 3") {
		t.Error(err)
	}
	if h := c.Health(); h.Dropped != 4 || h.Waiting != 10 {
		t.Errorf("%+v", h)
	}
	logs.await(t, "pipeline event not emitted", "stage=crawled", "url_hash=", "service=crawler", "event dropped")
	want := "# HELP pipeline_emit_dropped_total Events that found the buffer or the spool full, were lost to damage " +
		"of the spool, or were left in the buffer when the client closed.\n# TYPE pipeline_emit_dropped_total " +
		"counter\npipeline_emit_dropped_total 4\n"
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "pipeline_emit_dropped_total"))
	full := "# HELP pipeline_emit_full_ratio How full the buffer or the spool is, from 0 to 1: when it is full, events " +
		"are dropped.\n# TYPE pipeline_emit_full_ratio gauge\npipeline_emit_full_ratio{target_url=\"" + s.URL + "\"} 1\n"
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(full), "pipeline_emit_full_ratio"))
}

type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("boom") }

func TestInvalidEvents(t *testing.T) {
	f := startFake(t)
	c := open(t, Options{URL: f.URL})
	bad, exploding, dotted := crawled(1), crawled(2), crawled(3)
	bad.ArticleURL, exploding.Metadata, dotted.Stage = "nothing", map[string]any{"x": bomb{}}, "a.b"
	var invalid *event.Invalid
	if err := c.Emit(t.Context(), bad); !errors.As(err, &invalid) || invalid.Field != "article_url" {
		t.Error(err)
	}
	if err := c.Emit(t.Context(), exploding); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Error(err)
	}
	err := c.EmitBatch(t.Context(), []event.Event{crawled(10), bad, dotted, crawled(11)})
	if err == nil || !strings.Contains(err.Error(), "event 2 of 4") || !strings.Contains(err.Error(), "event 3 of 4") {
		t.Error(err)
	}
	must(t, c.Flush(within(t)))
	if len(f.got) != 2 {
		t.Error(f.got)
	}
}

// TestRefusals holds that what Millrace refuses is given up, and nothing else.
func TestRefusals(t *testing.T) {
	f := startFake(t)
	slow := true
	f.set(func(path string, events []json.RawMessage) (int, string) {
		switch {
		case slow:
			slow = false
			return 429, ""
		case len(events) > 3:
			return 413, `{"detail":"too large"}`
		case path == "/api/v1/events" && bytes.Contains(events[0], []byte("/5\"")):
			return 400, `{"errors":[{"field":"stage","code":"c","rule":"must be one of crawled"}]}`
		case len(events) > 1:
			if i := slices.IndexFunc(events, func(e json.RawMessage) bool {
				return bytes.Contains(e, []byte("/5\""))
			}); i >= 0 {
				return 201, fmt.Sprintf(`{"accepted":%d,"rejected":[{"index":%d,"error":{"field":"stage","code":"c",`+
					`"rule":"must be one of crawled"}}]}`, len(events)-1, i)
			}
		}
		return 200, ""
	})
	registry, logs := prometheus.NewRegistry(), &lines{}
	c := open(t, Options{URL: f.URL, Registry: registry, Log: slog.New(slog.NewTextHandler(logs, nil))})
	must(t, c.EmitBatch(t.Context(), crawledUpTo(10)))
	must(t, c.Flush(within(t)))
	if h := c.Health(); h.Circuit != "closed" || h.Dropped != 0 {
		t.Errorf("%+v", h)
	}
	logs.await(t, "pipeline event not emitted", "stage: must be one of crawled")
	if got := testutil.ToFloat64(c.metrics.emits.WithLabelValues("success", "crawled")); got != 9 {
		t.Errorf("%v events are delivered", got)
	}
	if got := testutil.ToFloat64(c.metrics.emits.WithLabelValues("error", "crawled")); got != 1 {
		t.Errorf("%v events are refused", got)
	}
}

// tookLongAgo puts events into the queue that Emit took when they were young.
func (c *Client) tookLongAgo(t testing.TB, events ...event.Event) {
	t.Helper()
	var texts [][]byte
	for _, e := range events {
		text, err := publish.Encode(e, "crawler", &event.Record{})
		must(t, err)
		texts = append(texts, text)
	}
	_, err := c.queue.push(t.Context(), texts)
	must(t, err)
	wake(c.news)
}

// TestTooOld: an event that is too old when it is emitted is refused, as it is
// everywhere, and does not keep those behind it.
func TestTooOld(t *testing.T) {
	f := startFake(t)
	c := open(t, Options{URL: f.URL})
	old, backfilled := crawled(100), crawled(101)
	old.OccurredAt = time.Now().Add(-event.MaxAge - time.Second)
	backfilled.OccurredAt, backfilled.Metadata = old.OccurredAt, map[string]any{"backfilled": true}
	var invalid *event.Invalid
	if err := c.EmitBatch(t.Context(), append([]event.Event{old, backfilled}, crawledUpTo(2)...)); !errors.As(err,
		&invalid) || invalid.Code != "time_too_old" {
		t.Error(err)
	}
	must(t, c.Flush(within(t)))
	if len(f.got) != 3 {
		t.Error(f.got)
	}
}

// TestMayNotBackfill: a token that may not send what the client has marked
// keeps it, until it may; what a service has marked is the service's affair.
func TestMayNotBackfill(t *testing.T) {
	const rule = `{"field":"metadata.backfilled","code":"backfill_forbidden","rule":"needs a caller with the scope ` +
		`events:backfill"}`
	for n := range 3 { // events that are not too old
		f := startFake(t)
		forbid := func(path string, events []json.RawMessage) (int, string) {
			var rejected []string
			for i, e := range events {
				if bytes.Contains(e, []byte(`"backfilled":true`)) {
					rejected = append(rejected, fmt.Sprintf(`{"index":%d,"error":%s}`, i, rule))
				}
			}
			text := fmt.Sprintf(`{"accepted":%d,"rejected":[%s],"status":400,"errors":[%s]}`, len(events)-len(rejected),
				strings.Join(rejected, ","), rule)
			switch len(rejected) {
			case 0:
				return 201, ""
			case len(events):
				return 400, text
			}
			return 201, text
		}
		f.set(forbid)
		logs := &lines{}
		c := open(t, Options{URL: f.URL, Log: slog.New(slog.NewTextHandler(logs, nil))})
		late, theirs := crawled(100), crawled(101)
		late.OccurredAt = time.Now().Add(-event.MaxAge - time.Hour)
		theirs.Metadata = map[string]any{"backfilled": true}
		c.tookLongAgo(t, append([]event.Event{theirs, late}, crawledUpTo(n)...)...)
		logs.await(t, "pipeline circuit breaker opened")
		if h := c.Health(); !strings.Contains(h.LastError, "lacks the scope events:backfill") {
			t.Errorf("%+v", h)
		}
		f.set(nil)
		must(t, c.Flush(within(t)))
		success, failed := testutil.ToFloat64(c.metrics.emits.WithLabelValues("success", "crawled")),
			testutil.ToFloat64(c.metrics.emits.WithLabelValues("error", "crawled"))
		if refused := logs.count("pipeline event not emitted"); success != float64(n+1) || refused != 1 || failed <= 1 {
			t.Errorf("%v events are delivered, %d refused, %v attempts failed", success, refused, failed)
		}
	}
}

// TestForeignAnswers: what is not Millrace's word on the events delivers none.
func TestForeignAnswers(t *testing.T) {
	millrace := startFake(t)
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"status":"duplicate","duplicates":2}`)) // as any GET may be answered
	}))
	defer list.Close()
	e := crawled(1)
	text, err := publish.Encode(e, "crawler", &event.Record{})
	must(t, err)
	for _, c := range []struct {
		to        string
		status    int
		delivered bool
	}{
		{"", 200, false},
		{"", 201, false},
		{"", 400, false},
		{"", 422, false},
		{list.URL, 301, false},
		{list.URL, 302, false},
		{list.URL, 303, false},
		{millrace.URL, 307, true},
		{millrace.URL, 308, true},
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.to == "" {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(`{"status":"ok","events":[]}`))
				return
			}
			http.Redirect(w, r, c.to+r.URL.Path, c.status)
		}))
		defer proxy.Close()
		for _, given := range []*http.Client{nil, {}} {
			h := newHTTPTransport(Options{URL: proxy.URL, HTTPClient: given})
			for _, n := range []int{1, 2} {
				outcomes, err := h.deliver(within(t), slices.Repeat([]item{{text: text}}, n))
				if (err == nil) != c.delivered || (len(outcomes) == n) != c.delivered {
					t.Errorf("%d events, %+v: %v %v", n, c, outcomes, err)
				}
			}
			h.close()
		}
	}
}

func TestTimes(t *testing.T) {
	var r event.Record
	c := open(t, Options{URL: "nats://127.0.0.1:1"})
	e := crawled(1)
	e.OccurredAt = time.Date(2026, 2, 10, 15, 30, 0, 123456789, time.FixedZone("", 3600))
	e.Metadata = map[string]any{"backfilled": true}
	text, err := c.encode(e)
	must(t, err)
	if err := event.Decode(text, &r); err != nil || string(r.AppendKey(nil)) != "crawler:crawled:"+fmt.Sprintf("%x",
		r.URLHash[:4])+":2026-02-10T14:30:00.123456Z" {
		t.Errorf("%s %v", r.AppendKey(nil), err)
	}
	e.OccurredAt = time.Time{}
	before := time.Now().Truncate(time.Microsecond)
	text, err = c.encode(e)
	must(t, err)
	if err := event.Decode(text, &r); err != nil || r.Time().Before(before) || r.Time().After(time.Now()) {
		t.Errorf("%s %v", r.Time(), err)
	}
}

func TestTargets(t *testing.T) {
	for address, want := range map[string]string{
		"nats://u:p@a:4222,b:4222": "nats://a:4222,nats://b:4222", "a:4222": "nats://a:4222",
		"http://u:p@a/api/pipeline?x=1": "http://a/api/pipeline",
		"https://a":                     "https://a", "wss://a": "wss://a",
		"ftp://a": "", "http://a,http://b": "", "http://": "", "nats://%": "",
	} {
		if got, _, err := target(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", address, got, err)
		}
	}
	for _, o := range []Options{
		{URL: "a"},
		{URL: "a", Service: strings.Repeat("s", 257)},
		{URL: "a", Service: "s", Buffer: -1},
		{URL: "ftp://a", Service: "s"},
		{URL: "a", Service: "s", Spool: "/dev/null/x"},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	t.Setenv(EnvNATS, "")
	t.Setenv(EnvService, "http://pipeline:8075")
	t.Setenv(EnvSpool, "/spool")
	if o := FromEnv("crawler"); o.URL != "http://pipeline:8075" || o.Service != "crawler" || o.Spool != "/spool" {
		t.Errorf("%+v", o)
	}
	t.Setenv(EnvNATS, "nats://a:4222")
	t.Setenv(EnvOpenFor, "1m30s")
	if o := FromEnv("crawler"); o.Breaker.OpenFor != 90*time.Second {
		t.Errorf("%+v", o)
	}
	for _, wrong := range []string{"soon", "0s", "-1s"} {
		t.Setenv(EnvOpenFor, wrong)
		if c, err := Open(FromEnv("crawler")); err == nil || !strings.Contains(err.Error(), EnvOpenFor) {
			t.Errorf("%q: %v, %v", wrong, c, err)
		}
	}
	if o := FromEnv("crawler"); o.URL != "nats://a:4222" {
		t.Errorf("%+v", o)
	}
	t.Setenv(EnvOpenFor, "")
	t.Setenv(EnvService, "") // set and empty: the service is switched off
	if o := FromEnv("crawler"); o.URL != "" {
		t.Errorf("%+v", o)
	}
	must(t, os.Unsetenv(EnvService))
	if o := FromEnv("crawler"); o.URL != "nats://a:4222" {
		t.Errorf("%+v", o)
	}
}

// lines is a log to wait on.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
	return l.text.Write(p)
}

// count returns how many lines hold a part.
func (l *lines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// await waits for a line that holds all parts.
func (l *lines) await(t *testing.T, parts ...string) {
	t.Helper()
	ctx := within(t)
	for {
		l.mu.Lock()
		if l.news == nil {
			l.news = make(chan struct{})
		}
		text, news := l.text.String(), l.news
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
				return
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("no line with %q in:\n%s", parts, text)
		}
	}
}

// BenchmarkEmit prints what a call costs its caller.
func BenchmarkEmit(b *testing.B) {
	b.Run("off", func(b *testing.B) {
		c := open(b, Options{})
		e, ctx := crawled(1), b.Context()
		b.ReportAllocs()
		for b.Loop() {
			_ = c.Emit(ctx, e)
		}
	})
	for _, spool := range []bool{false, true} {
		b.Run(fmt.Sprintf("spool %v", spool), func(b *testing.B) {
			s := natstest.Start(b, stream.Config{})
			o := Options{URL: s.URL(), Buffer: 1 << 20, BufferBytes: 1 << 30}
			if spool {
				o.Spool = b.TempDir()
			}
			c := open(b, o)
			took := make([]time.Duration, 0, 1<<20)
			e, n := crawled(0), 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				e.ArticleURL = fmt.Sprintf("https://example.com/%d", n)
				start := time.Now()
				if err := c.Emit(b.Context(), e); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns/op")
			must(b, c.Flush(within(b)))
		})
	}
}

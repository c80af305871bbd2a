package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivo/uniseg"
)

func TestFunnel(t *testing.T) {
	f := serve(t, map[string]any{"/funnel": `{"period":"today","timezone":"Europe/Berlin","source":"a\u001bb",
		"from":"2026-02-09T23:00:00Z","to":"2026-02-10T12:00:00Z","unique_error":0.024,"stream":{"behind":1},
		"stages":[{"name":"crawled","count":9,"unique_articles":8},{"name":"indexed","count":0,"unique_articles":0},
			{"name":"classified","count":3,"unique_articles":2}],
		"notes":[{"field":"source","code":"source_unknown","rule":"is the name of no source"}]}`})
	out, err := f.run(t, "funnel --period=today --source=x --tz=Europe/Berlin --exclude-reclassifications "+
		"--until=2026-02-10T12:00:00+01:00")
	if err != nil {
		t.Error(err)
	}
	want := "GET /funnel exclude_reclassifications=true&period=today&source=x&" +
		"to=2026-02-10T11%3A00%3A00Z&tz=Europe%2FBerlin"
	if f.asked[0] != want {
		t.Errorf("asked for %s", f.asked[0])
	}
	mustHave(t, out,
		`today in Europe/Berlin, 2026-02-10 00:00:00 CET to 2026-02-10 13:00:00 CET, source a\x1bb`,
		"crawled 9 8 100.0 100.0", "indexed 0 0 0.0 0.0", "classified 3 2 25.0",
		"articles are estimates, within 2.4 %", "1 event is not counted yet", "note: source is the name of no source",
	)
	if out, err := f.run(t, "funnel --json"); err != nil || !strings.Contains(out, `"code": "source_unknown"`) {
		t.Errorf("%v: %s", err, out)
	}
}

// stream is a server's list of events, the newest first.
type stream struct {
	mu     sync.Mutex
	events []string
	fail   func(http.ResponseWriter, *http.Request)
}

func (s *stream) add(seq int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := fmt.Sprintf(`{"seq":%d,"stage":"crawled","source_name":"s","service_name":"c",`+
		`"article_url":"https://example.com/%d","occurred_at":%q}`, seq, seq, at.UTC().Format(time.RFC3339Nano))
	s.events = append([]string{e}, s.events...)
}

// page answers as GET /events does, with the place in the list as the cursor.
func (s *stream) page(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		s.fail(w, r)
		return
	}
	var at, limit int
	_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &at)
	_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
	end := min(at+limit, len(s.events))
	next := ""
	if end < len(s.events) {
		next = fmt.Sprintf(`,"next_cursor":"%d"`, end)
	}
	fmt.Fprintf(w, `{"events":[%s]%s}`, strings.Join(s.events[at:end], ","), next)
}

func TestEvents(t *testing.T) {
	s := new(stream)
	start := time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC)
	for i := range 1200 {
		s.add(i+1, start.Add(time.Duration(i)*time.Second))
	}
	f := serve(t, map[string]any{"/events": s.page})
	out, err := f.run(t, "events --stage=crawled --trace=t --hash=h --service=c --limit=2 "+
		"--article=https://example.com/a")
	if err != nil {
		t.Error(err)
	}
	want := "GET /events article_url=https%3A%2F%2Fexample.com%2Fa&" +
		"limit=2&service=c&stage=crawled&trace_id=t&url_hash=h"
	if f.asked[0] != want {
		t.Errorf("asked for %s", f.asked[0])
	}
	mustHave(t, out, "OCCURRED STAGE SOURCE SERVICE ARTICLE",
		"2026-02-10T00:19:59.000Z crawled s c https://example.com/1200", "2 events; there are more (--limit)")
	out, err = f.run(t, "events --limit=0 --json")
	if err != nil || strings.Count(out, "\n") != 1200 || !strings.HasPrefix(out, s.events[0]+"\n") {
		t.Errorf("%v: %d lines, %.300s", err, strings.Count(out, "\n"), out)
	}
	out, err = f.run(t, "events --limit=1001")
	if err != nil || strings.Count(out, "OCCURRED") != 1 || strings.Count(out, "\n") != 1003 {
		t.Errorf("%v: %.300s", err, out)
	}
	s.events = nil
	if out, err = f.run(t, "events"); err != nil || out != "no events\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// lockedBuffer is written by a command while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestFollow: each event that comes is printed once, in order, also after the
// server was away; what was there before and is older is not.
func TestFollow(t *testing.T) {
	s, start := new(stream), time.Now()
	for i := range 5 {
		s.add(i+1, start.Add(time.Duration(i)*time.Millisecond))
	}
	f := serve(t, map[string]any{"/events": s.page})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, told lockedBuffer
	ended := make(chan error, 1)
	go func() {
		ended <- f.runOn(t, "events --follow --limit=2", &Console{Ctx: ctx, Out: &out, Err: &told})
	}()
	last := func(seq int) func() bool {
		return func() bool { return strings.Contains(out.String(), fmt.Sprintf("/%d\n", seq)) }
	}
	await(t, "the newest events", last(5))
	for i := range 3 {
		s.add(6+i, start.Add(time.Duration(10-i)*time.Millisecond)) // not in the order of their time
	}
	await(t, "events that have come", last(8))
	s.mu.Lock()
	s.fail = refuse(503, "", "", "ClickHouse is away")
	s.mu.Unlock()
	await(t, "word of the outage", func() bool { return strings.Contains(told.String(), "waiting: ") })
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	s.add(9, start.Add(time.Second))
	await(t, "the event after the outage", last(9))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for seq := 1; seq <= 9; seq++ {
		want := 1
		if seq < 4 {
			want = 0
		}
		if n := strings.Count(out.String(), fmt.Sprintf("/%d\n", seq)); n != want {
			t.Errorf("event %d was printed %d times, want %d", seq, n, want)
		}
	}
	if n := strings.Count(told.String(), "waiting: "); n != 1 {
		t.Errorf("told %d times of one outage", n)
	}
}

// TestFollowRefused: what is asked wrongly ends.
func TestFollowRefused(t *testing.T) {
	s := new(stream)
	s.add(1, time.Now())
	f := serve(t, map[string]any{"/events": s.page})
	ended := make(chan error, 1)
	var out lockedBuffer
	go func() { ended <- f.runOn(t, "events -f", &Console{Ctx: t.Context(), Out: &out, Err: &out}) }()
	await(t, "the first event", func() bool { return out.String() != "" })
	s.mu.Lock()
	s.fail = refuse(401, "", "", "the token has expired")
	s.mu.Unlock()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the token has expired") {
		t.Error(err)
	}
	err := f.runOn(t, "events", &Console{Ctx: endedContext(), Out: &out, Err: &out})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFollowColumns: events that come stand in the columns of those before, however
// long their names are.
func TestFollowColumns(t *testing.T) {
	var out strings.Builder
	p := eventPrinter{con: &Console{Out: &out}, endless: true}
	for _, source := range []string{"a", "新闻新闻新闻", strings.Repeat("long", 20), strings.Repeat("新", 40), "b"} {
		e := storedEvent{Stage: "crawled", Source: source, Service: source, ArticleURL: "https://" + strings.Repeat("x", 300)}
		if err := p.print([]storedEvent{e}); err != nil {
			t.Fatal(err)
		}
	}
	column := uniseg.StringWidth(strings.SplitN(out.String(), "ARTICLE", 2)[0])
	for line := range strings.Lines(out.String()) {
		before, _, found := strings.Cut(line, "https://")
		if found && uniseg.StringWidth(before) != column {
			t.Errorf("the article is not at column %d:\n%s", column, &out)
		}
	}
	if !strings.Contains(out.String(), "longlonglonglon… ") {
		t.Errorf("nothing says that a name is cut:\n%s", &out)
	}
}

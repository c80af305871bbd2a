package shards

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/sampler/samplertest"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

func serve(t *testing.T, cfg Config) *trackingtest.Site {
	t.Helper()
	s := trackingtest.New(t, &engine)
	s.Serve(auth.New(auth.Config{}), New(cfg, s.Store))
	return s
}

// fill registers a file and finishes its generation.
func fill(s *trackingtest.Site, file string, shards ...int32) {
	s.T.Helper()
	if _, err := s.Store.Register(s.T.Context(), []tracking.Registration{{
		Filename: file,
		Shards:   shards,
	}}); err != nil {
		s.T.Fatal(err)
	}
	if _, err := s.Store.FinishIngest(s.T.Context(), file, queue.Command{}); err != nil {
		s.T.Fatal(err)
	}
}

func move(s *trackingtest.Site, stage shard.Stage, file string, number int32, moves ...item.Move) {
	s.T.Helper()
	for _, m := range moves {
		results, err := s.Store.Apply(s.T.Context(), stage, m,
			[]queue.Command{{Name: file, Part: number, Worker: "w"}})
		if err != nil || results[0].Outcome != item.Changed {
			s.T.Fatalf("%s: %+v, %v", m, results, err)
		}
	}
}

var times = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)

// TestContract holds each answer of the specification to the letter.
func TestContract(t *testing.T) {
	s := serve(t, Config{})
	fill(s, "20250101000000", 1, 0)
	for _, stage := range shard.Queues {
		move(s, stage, "20250101000000", 1, item.Start, item.Complete)
	}
	move(s, shard.Splitter, "20250101000000", 0, item.Start, item.Complete)
	for path, want := range map[string]string{
		"/queues/shard-worker": `{"stage":"shard-worker","items":[{"filename":"20250101000000","shard":0,` +
			`"created_at":T}]}`,
		"/queues/shard-splitter": `{"stage":"shard-splitter","items":[]}`,
		"/files/20250101000000": `{"filename":"20250101000000","shards":[` +
			`{"shard":0,"event_ingest_status":"done","shard_splitter_status":"done","shard_worker_status":"new",` +
			`"mysql_sender_status":"new","updated_at":T},` +
			`{"shard":1,"event_ingest_status":"done","shard_splitter_status":"done","shard_worker_status":"done",` +
			`"mysql_sender_status":"done","updated_at":T}]}`,
	} {
		if status, text := s.Get(path); status != 200 || times.ReplaceAllString(text, "T") != want {
			t.Errorf("GET %s:\n%d %s, want\n%s", path, status, text, want)
		}
	}
	var sum Summary
	status, text := s.Get("/metrics/summary")
	s.Into(&sum, 200, status, text)
	if sum.Total != 2 || len(sum.ByStage) != 4 || sum.ByStage["shard_worker"] != (StatusCounts{New: 1, Done: 1}) ||
		sum.ByStage["event_ingest"] != (StatusCounts{Done: 2}) ||
		len(sum.ByShard) != 2 || sum.ByShard[1] != (ShardCounts{Shard: 1, Total: 1, Done: 1}) ||
		sum.Queues["shard_worker"].Depth != 1 {
		t.Errorf("%s", text)
	}
	gauges := samplertest.Read(t, Gauges(s.Store))
	if depth := gauges[`millrace_shard_queue_depth{stage="shard-worker"}`]; depth != "1" {
		t.Errorf("depth %q among the metrics: %v", depth, gauges)
	}
}

func TestBadInput(t *testing.T) {
	s := serve(t, Config{})
	for _, c := range []struct {
		path         string
		status       int
		field, inner string
	}{
		{"/queues/nope", 400, "stage", "must be shard-splitter"},
		{"/queues/event-ingest", 400, "stage", "must be shard-splitter"},
		{"/queues/shard-worker?limit=0", 400, "limit", "1"},
		{"/queues/shard-worker?limit=1001", 400, "limit", "1000"},
		{"/queues/shard-worker?offset=-1", 400, "offset", "0"},
		{"/queues/shard-worker?updated_since=yesterday", 400, "updated_since", "RFC 3339"},
		{"/queues/shard-worker?cursor=x", 400, "cursor", "next_cursor"},
		{"/files?status=lost", 400, "status", "one of"},
		{"/files?status=new&stage=nope", 400, "stage", "must be event-ingest"},
		{"/files?stage=shard-worker", 400, "stage", "together with status"},
		{"/files?search=a%00", 400, "search", "control characters"},
		{"/files?cursor=eyJGaWxlbmFtZSI6ImFcdTAwMDAifQ", 400, "cursor", "next_cursor"},
		{"/files/a%2Fb", 400, "filename", "slashes"},
		{"/files/a%01", 400, "filename", "control characters"},
		{"/files/nothere", 404, "filename", "registered"},
		{"/files/nothere/history", 404, "filename", "registered"},
		{"/files/a/history?shard=-1", 400, "shard", "from 0"},
		{"/files/a/history?shard=x", 400, "shard", "from 0"},
		{"/files/a/history?stage=x", 400, "stage", "must be event-ingest"},
		{"/files/a/history?cursor=9", 400, "cursor", "next_cursor"},
		{"/transitions?stage=x", 400, "stage", "must be event-ingest"},
		{"/transitions?filename=a/b", 400, "filename", "slashes"},
		{"/transitions?last_event_id=x", 400, "Last-Event-ID", "id of an event"},
	} {
		var p httpapi.Problem
		status, text := s.Get(c.path)
		s.Into(&p, c.status, status, text)
		if len(p.Errors) != 1 || p.Errors[0].Field != c.field || !strings.Contains(p.Errors[0].Rule, c.inner) {
			t.Errorf("GET %s: %s; want the field %q and the rule %q", c.path, text, c.field, c.inner)
		}
	}
}

// TestPages reads queue, files and history page by page.
func TestPages(t *testing.T) {
	s := serve(t, Config{})
	fill(s, "a", 0, 1, 2)
	fill(s, "b", 0)
	move(s, shard.Splitter, "a", 1, item.Start, item.Fail, item.Retry)
	page := func(path string, into any) string {
		t.Helper()
		status, text := s.Get(path)
		s.Into(into, 200, status, text)
		var next struct {
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(text), &next); err != nil {
			t.Fatal(err)
		}
		return next.NextCursor
	}
	all := func(path string, one func(path string) (string, string)) (got []string) {
		cursor := ""
		for range 20 {
			var line string
			line, cursor = one(path + "limit=1&cursor=" + cursor)
			got = append(got, line)
			if cursor == "" {
				return got
			}
		}
		t.Fatalf("%s does not end: %v", path, got)
		return nil
	}
	for path, c := range map[string]struct {
		one  func(string) (string, string)
		want string
	}{
		"/queues/shard-splitter?": {func(p string) (string, string) {
			var q Queue
			next := page(p, &q)
			return fmt.Sprint(q.Items[0].Filename, q.Items[0].Shard), next
		}, "a0 a1 a2 b0"},
		"/files?": {func(p string) (string, string) {
			var f Files
			next := page(p, &f)
			return fmt.Sprint(f.Files[0].Filename, f.Files[0].Shards), next
		}, "b1 a3"},
		"/files/a/history?shard=1&": {func(p string) (string, string) {
			var h History
			next := page(p, &h)
			return h.Transitions[0].Transition + "→" + h.Transitions[0].Status, next
		}, "register→started done→done start→started fail→failed retry→new"},
		"/files/a/history?stage=shard-splitter&": {func(p string) (string, string) {
			var h History
			next := page(p, &h)
			return h.Transitions[0].Transition, next
		}, "start fail retry"},
	} {
		if got := strings.Join(all(path, c.one), " "); got != c.want {
			t.Errorf("GET %s: %s, want %s", path, got, c.want)
		}
	}
	var detail FileState
	page("/files/a?detail=true", &detail)
	if d := detail.Shards[1].Stages["shard_splitter"]; d.Attempts != 1 || d.Worker != "w" || d.TakenAt == nil ||
		d.Generation != 3 {
		t.Errorf("%+v", d)
	}
}

// TestFeed follows transitions, loses the connection, and comes again.
func TestFeed(t *testing.T) {
	s := serve(t, Config{Poll: 5 * time.Millisecond, Feeds: 2})
	first := open(t, s, "", "")
	fill(s, "a", 0)
	if got := first.next(); got.Transition != "register" || got.Filename != "a" || got.Stage != "event-ingest" {
		t.Errorf("%+v", got)
	}
	first.close()
	fill(s, "b", 0)
	second := open(t, s, first.last, "")
	for _, want := range []string{"a done", "b register", "b done"} {
		if got := second.next(); got.Filename+" "+got.Transition != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	filtered := open(t, s, "0-0", "?filename=b&stage=event-ingest")
	if got := filtered.next(); got.Filename != "b" || got.Transition != "register" {
		t.Errorf("%+v", got)
	}
	if status, text := s.Get("/transitions"); status != 503 {
		t.Errorf("a third feed of two: %d %s", status, text)
	}
}

// feed is an open one.
type feed struct {
	t     *testing.T
	lines *bufio.Scanner
	last  string // id
	close func()
}

func open(t *testing.T, s *trackingtest.Site, last, query string) *feed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL("/transitions"+query), nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{t: t, lines: bufio.NewScanner(resp.Body), close: func() { cancel(); resp.Body.Close() }}
	t.Cleanup(f.close)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	return f
}

// next waits for a transition.
func (f *feed) next() (v Transition) {
	f.t.Helper()
	for f.lines.Scan() {
		line := f.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			f.last = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				f.t.Fatal(err)
			}
			if v.ID != f.last {
				f.t.Errorf("the event %s is the transition %s", f.last, v.ID)
			}
			return v
		}
	}
	f.t.Fatalf("the feed has ended: %v", f.lines.Err())
	return v
}

// TestOutage holds what callers are told while Postgres is away.
func TestOutage(t *testing.T) {
	s := serve(t, Config{})
	s.Store.Pool().Close()
	for _, path := range []string{"/metrics/summary", "/files", "/files/a", "/queues/shard-worker", "/transitions"} {
		if status, text := s.Get(path); status != 503 {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
	}
	for series := range samplertest.Read(t, Gauges(s.Store)) {
		if strings.HasPrefix(series, "millrace_shard") {
			t.Errorf("a metric of what cannot be known: %s", series)
		}
	}
}

// TestDescribed holds that every route is in the description.
func TestDescribed(t *testing.T) {
	s := serve(t, Config{})
	_, text := s.Get("/openapi.json")
	for _, path := range []string{
		"/queues/{stage}", "/files", "/files/{filename}", "/files/{filename}/history",
		"/metrics/summary", "/transitions",
	} {
		if !strings.Contains(text, `"/pipeline`+path+`"`) {
			t.Errorf("%s is not described", path)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(queueCursor.Encode(&tracking.QueuePlace{Priority: 3, Item: 9}))
	f.Add(fileCursor.Encode(&tracking.FilePlace{Filename: "a", CreatedAt: time.Unix(1e9, 0).UTC()}))
	f.Fuzz(func(t *testing.T, cursor string) {
		var item, sameItem *tracking.QueuePlace
		if err := queueCursor.Read(cursor, &item); err == nil && item != nil {
			if err := queueCursor.Read(queueCursor.Encode(item), &sameItem); err != nil || *sameItem != *item {
				t.Errorf("%v → %v, %v", *item, sameItem, err)
			}
		}
		var file, sameFile *tracking.FilePlace
		if err := fileCursor.Read(cursor, &file); err == nil && file != nil {
			if err := fileCursor.Read(fileCursor.Encode(file), &sameFile); err != nil ||
				!sameFile.CreatedAt.Equal(file.CreatedAt) {
				t.Errorf("%v → %v, %v", *file, sameFile, err)
			}
		}
	})
}

package ingesthttp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

const secret = "0123456789abcdef0123456789abcdef"

type fixture struct {
	*Handler
	t    *testing.T
	nats *natstest.Server
	url  string
	log  *lockedBuffer

	contract *contracttest.Contract // what the server says that it answers
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func start(t *testing.T, authCfg auth.Config) fixture {
	t.Helper()
	return startWith(t, authCfg, Config{Timeout: time.Minute, Limits: Limits{Rate: -1}})
}

func startWith(t *testing.T, authCfg auth.Config, cfg Config) fixture {
	t.Helper()
	f := fixture{t: t, nats: natstest.Start(t, stream.Config{}), log: &lockedBuffer{}}
	log := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	publisher, err := client.New(f.nats.Connect(), client.Config{Attempt: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	f.Handler, err = New(cfg, Deps{
		Log: log, Registry: registry, Publisher: publisher,
		Stages: stages,
	})
	if err != nil {
		t.Fatal(err)
	}
	frame, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	f.Register(endpoint.API{Server: frame, Auth: auth.New(authCfg), Log: log})
	server := httptest.NewServer(frame.Handler())
	t.Cleanup(server.Close)
	f.url = server.URL + "/api/v1"
	f.contract = contracttest.Of(t, frame.Handler())
	return f
}

type answer struct {
	status  int
	header  http.Header
	Problem httpapi.Problem
	Batch   BatchResult
	Stored  Stored
}

func (f fixture) post(path, contentType string, body []byte, header ...string) answer {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), "POST", f.url+path, bytes.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.contract.Check(r.Method, r.URL, resp, text); err != nil {
		f.t.Error(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	for _, part := range []any{&a.Problem, &a.Batch, &a.Stored} {
		_ = json.Unmarshal(text, part) // status is a number in one and a text in another
	}
	if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
		f.t.Errorf("%s is %s", text, resp.Header.Get("Content-Type"))
	}
	return a
}

func (f fixture) wantMetrics(lines ...string) {
	f.t.Helper()
	resp, err := http.Get(strings.TrimSuffix(f.url, "/api/v1") + "/metrics")
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(string(text), line+"\n") {
			f.t.Errorf("the metrics lack %s", line)
		}
	}
}

const (
	jsonType = "application/json"
	at       = "AT" // in the texts below, a minute ago
)

func text(s string) []byte {
	return []byte(
		strings.ReplaceAll(s, at, time.Now().Add(-time.Minute).UTC().Truncate(time.Minute).Format(time.RFC3339)),
	)
}

func eventText(n int) string {
	return fmt.Sprintf(`{"article_url":"https://example.com/%d","source_name":"s","stage":"crawled",`+
		`"occurred_at":"AT","service_name":"crawler","metadata":{"n":%d}}`, n, n)
}

// with returns a valid event with fields replaced, or removed by "".
func with(field, value string, more ...string) string {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(eventText(0)), &fields); err != nil {
		panic(err)
	}
	for pair := range slices.Chunk(append([]string{field, value}, more...), 2) {
		if fields[pair[0]] = json.RawMessage(pair[1]); pair[1] == "" {
			delete(fields, pair[0])
		}
	}
	out, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func ago(d time.Duration) string {
	return `"` + time.Now().Add(-d).UTC().Format(time.RFC3339) + `"`
}

// TestBatchLogsItsEvents holds the lines of a batch, and at the level debug one
// for each event.
func TestBatchLogsItsEvents(t *testing.T) {
	f := start(t, auth.Config{})
	f.post("/events/batch", linesType, text(eventText(1)+"\n"+eventText(2)+"\n"+eventText(1)))
	log := f.log.String()
	for line, want := range map[string]int{
		`level=DEBUG msg="event ingested" stage=crawled article_url_hash=`: 2,
		` service=crawler`: 2,
		`level=DEBUG msg="duplicate event skipped" idempotency_key=crawler:crawled:`: 1,
		`level=INFO msg="events ingested" accepted=2 duplicates=1 rejected=0`:        1,
	} {
		if got := strings.Count(log, line); got != want {
			t.Errorf("%d lines with %s, want %d:\n%s", got, line, want, log)
		}
	}
}

func TestWhatBadInputGets(t *testing.T) {
	f := start(t, auth.Config{})
	for _, c := range []struct {
		name, body  string
		status      int
		field, code string
	}{
		{"unknown stage", with("stage", `"cooked"`), 400, "stage", "stage_unknown"},
		{"no stage", with("stage", ""), 400, "stage", "missing"},
		{"no url", with("article_url", ""), 400, "article_url", "missing"},
		{"no source", with("source_name", ""), 400, "source_name", "missing"},
		{"no time", with("occurred_at", ""), 400, "occurred_at", "missing"},
		{"no service", with("service_name", `null`), 400, "service_name", "missing"},
		{"time in a zone", with("occurred_at", `"2026-02-10T14:30:00+01:00"`), 400, "occurred_at", "time_not_utc"},
		{"time without a zone", with("occurred_at", `"2026-02-10T14:30:00"`), 400, "occurred_at", "time_format"},
		{"future", with("occurred_at", ago(-time.Minute)), 400, "occurred_at", "time_future"},
		{"a day old", with("occurred_at", ago(25*time.Hour)), 400, "occurred_at", "time_too_old"},
		{"url without scheme", with("article_url", `"example.com/a"`), 400, "article_url", "url"},
		{
			"long url", with("article_url", `"https://example.com/`+strings.Repeat("x", 3000)+`"`), 400, "article_url",
			"length",
		},
		{"metadata a list", with("metadata", `[1]`), 400, "metadata", "metadata_object"},
		{
			"large metadata", with("metadata", `{"x":"`+strings.Repeat("x", 70_000)+`"}`), 400, "metadata",
			"metadata_size",
		},
		{"large event", with("extra", `"`+strings.Repeat("x", 200_000)+`"`), 400, "", "size"},
		{"unknown member", with("stge", `"crawled"`), 400, "stge", "field_unknown"},
		{"url a number", with("article_url", `7`), 400, "article_url", "type"},
		{"invalid UTF-8", with("source_name", `"S"`)[:20] + "\xff" + with("source_name", `"S"`)[20:], 400, "", "utf8"},
		{"broken JSON", `{"article_url":`, 400, "", "json"},
		{"a list", `[]`, 400, "", "json"},
		{"nothing", ``, 400, "", "json"},
		{"20 MB", strings.Repeat("x", 20_000_000), 413, "", "body_size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := f.post("/events", jsonType, text(c.body))
			check := func(path string, got answer, field string) {
				t.Helper()
				if got.status != c.status || len(got.Problem.Errors) == 0 {
					t.Fatalf("%s: %d %+v", path, got.status, got.Problem)
				}
				e := got.Problem.Errors[0]
				if e.Field != field || e.Code != c.code || e.Rule == "" {
					t.Errorf("%s: %+v, want %s %s", path, e, field, c.code)
				}
			}
			check("/events", got, c.field)
			if c.code == "json" || c.code == "body_size" || c.body == "" {
				return
			}
			inBatch := strings.TrimSuffix("events[0]."+c.field, ".")
			check("/events/batch", f.post("/events/batch", jsonType, text(`{"events":[`+c.body+`]}`)), inBatch)
			check("ndjson", f.post("/events", linesType, text(c.body+"\n")), inBatch)
		})
	}
	if n := len(f.nats.IDs()); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}

func TestWhatBadRequestsGet(t *testing.T) {
	f := start(t, auth.Config{})
	many := strings.Repeat(eventText(1)+"\n", MaxEvents+1)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	good := string(text(eventText(1)))
	for _, c := range []struct {
		name, path, contentType, body, encoding string
		status                                  int
		field, code                             string
	}{
		{"broken batch", "/events/batch", jsonType, `{"events":[`, "", 400, "", "json"},
		{"batch with a broken event", "/events/batch", jsonType, `{"events":[{"a":}]}`, "", 400, "", "json"},
		{"list as a batch", "/events/batch", jsonType, `[]`, "", 400, "", "json"},
		{"events not a list", "/events/batch", jsonType, `{"events":{}}`, "", 400, "events", "type"},
		{
			"member beside the events", "/events/batch", jsonType, `{"evnts":1,"events":[` + good + `]}`, "", 400,
			"evnts", "field_unknown",
		},
		{"no events", "/events/batch", jsonType, `{}`, "", 400, "events", "missing"},
		{"empty list", "/events/batch", jsonType, `{"events":[]}`, "", 400, "events", "missing"},
		{"no lines", "/events", linesType, "\n\n", "", 400, "events", "missing"},
		{"too many lines", "/events/batch", linesType, many, "", 413, "events", "batch_size"},
		{
			"too many events", "/events/batch", jsonType, `{"events":[0` + strings.Repeat(",0", MaxEvents) + `]}`, "",
			413,
			"events", "batch_size",
		},
		{"text", "/events", "text/plain", good, "", 415, "Content-Type", "content_type"},
		{"form", "/events/batch", "application/x-www-form-urlencoded", good, "", 415, "Content-Type", "content_type"},
		{"no type", "/events", "", good, "", 415, "Content-Type", "content_type"},
		{"not gzip", "/events", jsonType, good, "gzip", 400, "", "gzip"},
		{"other encoding", "/events", jsonType, good, "br", 415, "Content-Encoding", "content_encoding"},
		{"gzip bomb", "/events", jsonType, bomb.String(), "gzip", 413, "", "body_size"},
		{"cut gzip", "/events", jsonType, bomb.String()[:1000], "gzip", 400, "", "body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := f.post(c.path, c.contentType, []byte(c.body), "Content-Encoding", c.encoding)
			if got.status != c.status || len(got.Problem.Errors) == 0 || got.Problem.Errors[0].Field != c.field ||
				got.Problem.Errors[0].Code != c.code {
				t.Errorf("%d %+v", got.status, got.Problem)
			}
		})
	}
	if n := len(f.nats.IDs()); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}

func TestSingle(t *testing.T) {
	f := start(t, auth.Config{})
	body := text(eventText(1))
	first := f.post("/events", jsonType+"; charset=utf-8", body)
	if first.status != 201 || first.Stored.Status != "accepted" ||
		!strings.HasPrefix(first.Stored.IdempotencyKey, "crawler:crawled:"+first.Stored.URLHash[:8]+":") {
		t.Errorf("%+v", first)
	}
	if again := f.post("/events", jsonType, body); again.status != 200 || again.Stored.Status != "duplicate" ||
		again.Stored.URLHash != first.Stored.URLHash {
		t.Errorf("%+v", again)
	}
	late := f.post("/events", jsonType, []byte(with("occurred_at", ago(2*time.Hour))))
	if late.status != 201 {
		t.Errorf("%+v", late)
	}
	backfilled := strings.Replace(with("occurred_at", `"2020-01-01T00:00:00Z"`), `{"n":0}`, `{"backfilled":true}`, 1)
	if got := f.post("/events", jsonType, []byte(backfilled)); got.status != 201 {
		t.Errorf("%+v", got)
	}
	for _, line := range []string{
		`level=INFO msg="event ingested" stage=crawled article_url_hash=` + first.Stored.URLHash[:8] +
			` service=crawler`,
		`level=DEBUG msg="duplicate event skipped" idempotency_key=` + first.Stored.IdempotencyKey,
		`level=WARN msg="late event received" stage=crawled delay=2h0m`,
	} {
		if !strings.Contains(f.log.String(), line) {
			t.Errorf("the log lacks %s:\n%s", line, f.log)
		}
	}
	f.wantMetrics(`pipeline_events_ingested_total{stage="crawled"} 3`,
		`pipeline_events_ingested_total{stage="routed"} 0`,
		`pipeline_events_duplicated_total 1`, `pipeline_ingest_duration_seconds_count 4`)
	s, err := f.nats.JetStream().Stream(t.Context(), stream.Events)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetMsg(t.Context(), 1); err != nil || !bytes.Equal(m.Data, body) {
		t.Errorf("the stream has %s, %v; want the text as sent", m.Data, err)
	}
}

// TestKeysThatDifferInABlank: they are two events, and each counts.
func TestKeysThatDifferInABlank(t *testing.T) {
	f := start(t, auth.Config{})
	plain, blank := text(with("idempotency_key", `"k"`)), text(with("idempotency_key", `" k"`))
	if got := f.post("/events/batch", linesType, bytes.Join([][]byte{plain, blank}, []byte("\n"))); got.status != 201 ||
		got.Batch.Accepted != 2 {
		t.Errorf("%+v", got)
	}
	if got := f.post("/events", jsonType, blank); got.status != 200 || got.Stored.IdempotencyKey != " k" {
		t.Errorf("%+v", got)
	}
}

// TestLongKey: a key is made of metadata that may be longer than the broker's
// headers.
func TestLongKey(t *testing.T) {
	f := start(t, auth.Config{})
	long := text(
		with("metadata", `{"is_reclassification":true,"model_version":"`+strings.Repeat("v",
			event.MaxMetadata-60)+`"}`),
	)
	for _, want := range []int{201, 200} {
		if got := f.post("/events", jsonType, long); got.status != want {
			t.Errorf("status %d, want %d", got.status, want)
		}
	}
}

// TestKeyConflict: an event whose key another service or stage has is refused by
// name, alone and in a batch, and is never a duplicate.
func TestKeyConflict(t *testing.T) {
	f := start(t, auth.Config{})
	first := text(with("idempotency_key", `"k"`))
	taken := text(with("idempotency_key", `"k"`, "service_name", `"another"`))
	if got := f.post("/events", jsonType, first); got.status != 201 {
		t.Errorf("%+v", got)
	}
	for range 2 {
		got := f.post("/events", jsonType, taken)
		if got.status != 409 || len(got.Problem.Errors) != 1 || got.Problem.Errors[0].Code != "key_conflict" ||
			got.Problem.Errors[0].Field != "idempotency_key" {
			t.Errorf("%+v", got)
		}
	}
	got := f.post("/events/batch", linesType, bytes.Join([][]byte{first, taken, text(eventText(1))}, []byte("\n")))
	if got.status != 201 || got.Batch.Accepted != 1 || got.Batch.Duplicates != 1 || len(got.Batch.Rejected) != 1 ||
		got.Batch.Rejected[0].Index != 1 ||
		got.Batch.Rejected[0].Error.Code != "key_conflict" {
		t.Errorf("%+v", got)
	}
	if got := f.post("/events/batch", linesType, taken); got.status != 400 || len(got.Batch.Rejected) != 1 ||
		got.Problem.Errors[0].Code != "key_conflict" {
		t.Errorf("%+v", got)
	}
	f.wantMetrics(`pipeline_events_rejected_total{reason="key_conflict"} 4`)
	if n := len(f.nats.IDs()); n != 2 {
		t.Errorf("%d events are stored", n)
	}
}

// TestRepeats: what this handler has had acknowledged is a duplicate, in requests
// one after the other and in those that come at once, with no projector there; and
// garbage with an event's message id keeps the event from nothing.
func TestRepeats(t *testing.T) {
	// Generous: syncing the events takes a busy machine its time.
	f := startWith(t, auth.Config{}, Config{Timeout: time.Minute, Limits: Limits{Rate: -1}})
	var batch [][]byte
	n := slowtest.N(3000, 1200)
	for i := range n {
		batch = append(batch, text(eventText(i)))
	}
	body := bytes.Join(batch, []byte("\n"))
	for _, want := range [][2]int{{n, 0}, {0, n}} {
		if got := f.post("/events/batch", linesType, body); got.Batch.Accepted != want[0] ||
			got.Batch.Duplicates != want[1] {
			t.Errorf("got %+v, want %v", got.Batch, want)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for range 30 {
		wg.Go(func() {
			status := f.post("/events", jsonType, text(eventText(5000))).status
			mu.Lock()
			defer mu.Unlock()
			got[status]++
		})
	}
	wg.Wait()
	if got[201] != 1 || got[200] != 29 {
		t.Errorf("30 requests with one event are answered %v", got)
	}
	channels := [][]byte{
		text(with("stage", `"published"`, "metadata", `{"channel":"a"}`)),
		text(with("stage", `"published"`, "metadata", `{"channel":"b"}`)),
	}
	for _, want := range []int{201, 200} {
		for _, one := range channels {
			if got := f.post("/events", jsonType, one); got.status != want {
				t.Errorf("%s: status %d, want %d", one, got.status, want)
			}
		}
	}
	attacked := text(eventText(6000))
	var r event.Record
	if invalid := event.Decode(attacked, &r); invalid != nil {
		t.Fatal(invalid)
	}
	if _, err := f.nats.JetStream().Publish(t.Context(), stream.EventSubject("crawled", r.URLHash), []byte("garbage"),
		jetstream.WithMsgID(r.MessageID())); err != nil {
		t.Fatal(err)
	}
	if got := f.post("/events", jsonType, attacked); got.status != 201 {
		t.Errorf("an event whose message id was taken: %+v", got)
	}
	if f.nats.IDs()[r.MessageID()] != 1 {
		t.Error("it is not stored")
	}
}

func TestBatches(t *testing.T) {
	// Generous: syncing 2,500 events takes a busy machine its time.
	f := startWith(t, auth.Config{}, Config{Timeout: 5 * time.Minute, Limits: Limits{Rate: -1}})
	mixed := `{"events":[` + eventText(1) + `,` + with("stage", `"cooked"`) + `,` + eventText(2) + `,` +
		eventText(1) + `,7]}`
	got := f.post("/events/batch", jsonType, text(mixed))
	if got.status != 201 || got.Batch.Accepted != 2 || got.Batch.Duplicates != 1 || len(got.Batch.Rejected) != 2 {
		t.Fatalf("%+v", got)
	}
	if r := got.Batch.Rejected; r[0].Index != 1 || r[0].Error.Field != "stage" || r[0].Error.Code != "stage_unknown" ||
		r[1].Index != 4 || r[1].Error.Code != "json" {
		t.Errorf("%+v", r)
	}
	if got := f.post("/events/batch", jsonType, text(mixed)); got.status != 200 || got.Batch.Duplicates != 3 ||
		got.Batch.Accepted != 0 || len(got.Batch.Rejected) != 2 {
		t.Errorf("%+v", got)
	}
	none := f.post("/events/batch", linesType, text(with("stage", `"cooked"`)+"\nnothing\n"))
	if none.status != 400 || len(none.Batch.Rejected) != 2 || none.Batch.Rejected[1].Index != 1 ||
		none.Problem.Status != 400 {
		t.Errorf("%+v", none)
	}
	var lines []string
	for i := range 2500 {
		lines = append(lines, eventText(10+i))
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(text(strings.Join(lines, "\r\n\n")))
	_ = z.Close()
	if got := f.post("/events", linesType, zipped.Bytes(), "Content-Encoding", "gzip"); got.status != 201 ||
		got.Batch.Accepted != 2500 {
		t.Errorf("%+v", got)
	}
	if n := len(f.nats.IDs()); n != 2502 {
		t.Errorf("%d events are stored", n)
	}
	f.wantMetrics(`pipeline_events_rejected_total{reason="stage_unknown"} 3`,
		`pipeline_events_ingested_total{stage="crawled"} 2502`)
}

func TestPermissions(t *testing.T) {
	f := start(t, auth.Config{Secret: secret})
	token := func(scopes ...auth.Scope) string {
		token, err := auth.Mint(secret, "ann", scopes, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	backfill := text(strings.Replace(eventText(1), `{"n":1}`, `{"backfilled":true}`, 1))
	for _, c := range []struct {
		name, header string
		body         []byte
		status       int
	}{
		{"nobody", "", text(eventText(2)), 401},
		{"reader", token(auth.Read), text(eventText(2)), 403},
		{"writer", token(auth.EventsWrite), text(eventText(2)), 201},
		{"writer backfills", token(auth.EventsWrite), backfill, 400},
		{"backfiller", token(auth.EventsWrite, auth.EventsBackfill), backfill, 201},
	} {
		for _, path := range []string{"/events", "/events/batch"} {
			contentType, status := jsonType, c.status
			if path == "/events/batch" {
				contentType = linesType
				if status == 201 {
					status = 200 // the second time
				}
			}
			if got := f.post(path, contentType, c.body, "Authorization", c.header); got.status != status {
				t.Errorf("%s %s: %d %+v", c.name, path, got.status, got.Problem)
			}
		}
	}
}

// Nothing is acknowledged that is not stored (invariant 1): while the server
// is away requests get 503, and sent again they are taken.
func TestBackendGone(t *testing.T) {
	f := start(t, auth.Config{})
	f.Handler.timeout = 300 * time.Millisecond
	f.nats.Stop()
	lines := eventText(1) + "\n" + eventText(2) + "\n" + with("stage", `"cooked"`)
	for path, contentType := range map[string]string{"/events": jsonType, "/events/batch": linesType} {
		body := lines
		if path == "/events" {
			body = eventText(3)
		}
		got := f.post(path, contentType, text(body))
		if got.status != 503 || got.header.Get("Retry-After") == "" || len(got.Problem.Errors) == 0 ||
			got.Problem.Errors[0].Code != "unavailable" {
			t.Errorf("%s: %d %+v", path, got.status, got.Problem)
		}
	}
	f.nats.Start()
	f.Handler.timeout = time.Minute
	if got := f.post("/events/batch", linesType, text(lines)); got.status != 201 || got.Batch.Accepted != 2 ||
		len(got.Batch.Rejected) != 1 {
		t.Errorf("%d %+v", got.status, got)
	}
}

func TestConcurrentPosts(t *testing.T) {
	f := start(t, auth.Config{})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if got := f.post("/events", jsonType, text(eventText(i))); got.status != 201 {
				t.Errorf("%d %+v", got.status, got.Problem)
			}
		})
	}
	wg.Wait()
	if n := len(f.nats.IDs()); n != 200 {
		t.Errorf("%d events are stored", n)
	}
}

func TestDescription(t *testing.T) {
	f := start(t, auth.Config{})
	get := func(url string) map[string]any {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var doc map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	schema := get(f.url + "/schemas/event.json")
	doc := get(strings.TrimSuffix(f.url, "/api/v1") + "/openapi.json")
	published := doc["components"].(map[string]any)["schemas"].(map[string]any)["Event"].(map[string]any)
	if fmt.Sprint(schema) != fmt.Sprint(published) || schema["title"] != "Event" {
		t.Errorf("the schema is %v, published %v", schema, published)
	}
	for _, path := range []string{"/events", "/events/batch", "/schemas/event.json"} {
		if doc["paths"].(map[string]any)[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
}

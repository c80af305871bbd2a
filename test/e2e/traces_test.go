package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/stream"
)

// receiver takes traces by OTLP over HTTP.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var export collector.ExportTraceServiceRequest
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", req.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range export.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// in returns the spans of a trace whose names begin so.
func (r *receiver) in(id trace.TraceID, name string) (found []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if bytes.Equal(s.TraceId, id[:]) && strings.HasPrefix(s.Name, name) {
			found = append(found, s)
		}
	}
	return found
}

// await waits for the span of a trace whose name begins so.
func (r *receiver) await(t *testing.T, id trace.TraceID, name string) *otlp.Span {
	t.Helper()
	var found []*otlp.Span
	poll(t, waitLimit, fmt.Sprintf("the span %q of trace %s", name, id), func() bool {
		found = r.in(id, name)
		return len(found) > 0
	})
	return found[0]
}

// within tells whether a span is a child of another.
func within(child, parent *otlp.Span) bool {
	return bytes.Equal(child.ParentSpanId, parent.SpanId) && bytes.Equal(child.TraceId, parent.TraceId)
}

func linked(from, to *otlp.Span) bool {
	return slices.ContainsFunc(from.Links, func(l *otlp.Span_Link) bool {
		return bytes.Equal(l.SpanId, to.SpanId) && bytes.Equal(l.TraceId, to.TraceId)
	})
}

// caller is the span of a service that traces what it does.
func callerSpan(n byte) (context.Context, trace.SpanContext, string) {
	of := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: n}, SpanID: trace.SpanID{7: n}, TraceFlags: trace.FlagsSampled,
	})
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), of)
	return ctx, of, stream.TraceOf(ctx)
}

func tracedPost(t *testing.T, s *server, path, body, traced string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url("/api/v1"+path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", traced)
	status, _, answer := s.read(http.DefaultClient.Do(req))
	if status >= 300 {
		t.Fatalf("POST %s: %d %s", path, status, answer)
	}
	return string(answer)
}

func tracedEvent(n int) string {
	return fmt.Sprintf(`{"article_url":"https://example.com/traced-%d","source_name":"traced","stage":"crawled",`+
		`"occurred_at":%q,"service_name":"traces"}`, n, time.Now().UTC().Format(time.RFC3339))
}

// TestTraces: the trace of one event leads from its request over the fold to the announcement
// that readers hear, and that of one item from its addition to its end; so do those of a batch, of a
// run of a job, and of a shard. Headers that are none,
// or too many, change nothing else.
func TestTraces(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := up(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "MILLRACE_LOG_FORMAT=json")
	t.Run("event", func(t *testing.T) { testEventTrace(t, s, r) })
	t.Run("item", func(t *testing.T) { testItemTrace(t, s, r) })
	t.Run("plain daemon", func(t *testing.T) { testPlainTrace(t, s, r) })
	t.Run("batch", func(t *testing.T) { testBatchTrace(t, s, r) })
	t.Run("job", func(t *testing.T) { testJobTrace(t, s, r) })
	t.Run("shard", func(t *testing.T) { testShardTrace(t, s, r) })
	t.Run("headers", func(t *testing.T) { testTraceHeaders(t, s, r) })
}

func testEventTrace(t *testing.T, s *server, r *receiver) {
	_, of, traced := callerSpan(1)
	tracedPost(t, s, "/events", tracedEvent(0), traced)
	request := r.await(t, of.TraceID(), "POST /api/v1/events")
	published := r.await(t, of.TraceID(), "publish events.crawled.")
	folded := r.await(t, of.TraceID(), "fold EVENTS")
	if id := of.SpanID(); !bytes.Equal(request.ParentSpanId, id[:]) || !within(published, request) || !within(folded, published) {
		t.Errorf("the spans are not within each other: %v, %v, %v", request, published, folded)
	}
	if len(folded.Links) != 1 {
		t.Fatalf("the fold of the event has the links %v, want that to its batch", folded.Links)
	}
	batch := r.await(t, trace.TraceID(folded.Links[0].TraceId), "write batch of EVENTS")
	heard := r.await(t, trace.TraceID(folded.Links[0].TraceId), "receive "+stream.FunnelDeltas)
	if !linked(folded, batch) || !linked(batch, folded) || !within(heard, batch) {
		t.Errorf("the batch %v is not linked with %v, or %v is not within it", batch, folded, heard)
	}
	poll(t, waitLimit, "a log line with the trace", func() bool {
		return slices.ContainsFunc(strings.Split(s.log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, "event ingested") && strings.Contains(line, of.TraceID().String())
		})
	})
}

// testItemTrace: an item that is added over NATS, and that a worker in Go takes and ends.
func testItemTrace(t *testing.T, s *server, r *receiver) {
	ctx, of, _ := callerSpan(2)
	if status, _, answer := s.post("/queues", "application/json", `{"name":"traced"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	nc := s.nats()
	if _, err := client.Enqueue(ctx, nc, "traced", client.NewItem{Payload: 1}); err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(t.Context())
	handled := make(chan trace.SpanContext, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Work(working, nc, "traced", func(ctx context.Context, _ client.Item) error {
			handled <- trace.SpanContextFromContext(ctx)
			return nil
		}, client.WorkConfig{})
	}()
	added := r.await(t, of.TraceID(), "add traced")
	started := r.await(t, of.TraceID(), "start traced")
	done := r.await(t, of.TraceID(), "done traced")
	if id := of.SpanID(); !bytes.Equal(added.ParentSpanId, id[:]) || !within(started, added) || !within(done, added) {
		t.Errorf("the spans are not within each other: %v, %v, %v", added, started, done)
	}
	if in := <-handled; hex.EncodeToString(added.SpanId) != in.SpanID().String() || in.TraceID() != of.TraceID() {
		t.Errorf("the handler is within %v, want %x", in, added.SpanId)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// testPlainTrace: an item that is added over HTTP, whose trace stands in the header of its
// message and in the answer to who takes it.
func testPlainTrace(t *testing.T, s *server, r *receiver) {
	_, of, traced := callerSpan(3)
	tracedPost(t, s, "/queues/traced/items", `{"items":[{"payload":1},{"payload":2}]}`, traced)
	added := r.await(t, of.TraceID(), "add traced")
	want := fmt.Sprintf("00-%s-%x-01", of.TraceID(), added.SpanId)
	js, err := jetstream.New(s.nats())
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), stream.Work, "traced")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(waitLimit))
	if err != nil {
		t.Fatal(err)
	}
	if got := msg.Headers().Get(stream.TraceParent); got != want {
		t.Errorf("the message has the trace %q, want %q", got, want)
	}
	if err := msg.Ack(); err != nil {
		t.Fatal(err)
	}
	r.await(t, of.TraceID(), "done traced")
	_, taker, byTaker := callerSpan(4)
	poll(t, waitLimit, "the other item", func() bool {
		return strings.Contains(tracedPost(t, s, "/queues/traced/take", `{"worker":"w"}`, byTaker), `"traceparent":"`+want)
	})
	poll(t, waitLimit, "a span of the taking, with a link to its request", func() bool {
		for _, request := range r.in(taker.TraceID(), "POST /api/v1/queues/{queue}/take") {
			for _, started := range r.in(of.TraceID(), "start traced") {
				if linked(started, request) {
					return true
				}
			}
		}
		return false
	})
}

// testTraceHeaders: everybody may send headers. Those that are no traces are left alone, and
// of those that are, a batch has so many spans and no more. Each event counts.
func testTraceHeaders(t *testing.T, s *server, r *receiver) {
	nc := s.nats()
	_, of, traced := callerSpan(5)
	headers := []nats.Header{
		{"traceparent": {strings.Repeat("0", 55)}},
		{"traceparent": {strings.Repeat("x", 60_000)}},
		{"traceparent": {""}},
		{"traceparent": {"ff" + traced[2:], traced}},
		{"traceparent": {traced[:54] + "\xff"}},
		{"traceparent": nil, "Traceparent": {traced}, "tracestate": {strings.Repeat("a=b,", 5000)}},
	}
	n := 100
	for range 4 * stream.MostTraced {
		headers = append(headers, nats.Header{"traceparent": {traced}, "tracestate": {"a=b"}})
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		n++
		hash := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "https://example.com/traced-%d", n)))
		msg := &nats.Msg{Subject: "events.crawled." + hash[:2], Data: []byte(tracedEvent(n)), Header: h}
		if _, err := js.PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	poll(t, waitLimit, "all events to count", func() bool {
		return strings.TrimSpace(s.ask("SELECT count() FROM events WHERE source_name = 'traced'")) == fmt.Sprint(1+len(headers))
	})
	folded := r.await(t, of.TraceID(), "fold EVENTS")
	if id := of.SpanID(); !bytes.Equal(folded.ParentSpanId, id[:]) {
		t.Errorf("%v is not within the span that has published", folded)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.spans {
		if len(span.Links) > stream.MostTraced {
			t.Errorf("%s has %d links, want %d at most", span.Name, len(span.Links), stream.MostTraced)
		}
	}
}

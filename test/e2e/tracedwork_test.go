package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/millrace-io/millrace/schemas/stream"
)

// testBatchTrace: the trace of a batch leads from its announcement over reading its object to its outcome. One that
// becomes a dead letter says so, and so does the log.
func testBatchTrace(t *testing.T, s *server, r *receiver) {
	_, of, traced := callerSpan(6)
	tracedPost(t, s, "/batches", `{"job_id":"traced-job","batch_index":1,"items":[{"fetch_status":"success"}]}`, traced)
	request := r.await(t, of.TraceID(), "POST /api/v1/batches")
	published := r.await(t, of.TraceID(), "publish "+stream.BatchCollected)
	read := r.await(t, of.TraceID(), "read batch")
	stored := r.await(t, of.TraceID(), "fold "+stream.BatchesRead)
	if !within(published, request) || !within(read, published) || !within(stored, read) {
		t.Errorf("the spans are not within each other: %v, %v, %v, %v", request, published, read, stored)
	}
	if len(stored.Links) != 1 {
		t.Fatalf("the fold has the links %v, want that to its batch", stored.Links)
	}
	if batch := r.await(t, trace.TraceID(stored.Links[0].TraceId), "write batch of "+stream.BatchesRead); !linked(batch, stored) {
		t.Errorf("%v is not linked with %v", batch, stored)
	}

	_, of, traced = callerSpan(7)
	nc := s.nats()
	if err := nc.PublishMsg(&nats.Msg{
		Subject: stream.BatchCollected, Data: []byte("{}"), Header: nats.Header{stream.TraceParent: {traced}},
	}); err != nil {
		t.Fatal(err)
	}
	read = r.await(t, of.TraceID(), "read batch")
	if id := of.SpanID(); !bytes.Equal(read.ParentSpanId, id[:]) || read.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the attempt at a message that is no announcement is %v", read)
	}
	poll(t, waitLimit, "a log line with the trace", func() bool {
		return slices.ContainsFunc(strings.Split(s.log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, "is a dead letter") && strings.Contains(line, of.TraceID().String())
		})
	})
}

// attributeOf is the text of an attribute of a span.
func attributeOf(span *otlp.Span, key string) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// testJobTrace: each run of a job has a trace, from when it was due over the life of its item to the entry in the
// ledger.
func testJobTrace(t *testing.T, s *server, r *receiver) {
	source := s.createSource(t, "traced")
	var job string
	poll(t, waitLimit, "the job of the source", func() bool {
		for _, j := range pages[crawlJob](s, "/jobs?limit=1000") {
			if j.SourceID == source.ID {
				job = j.ID
			}
		}
		return job != ""
	})
	s.jobCommand(t, http.MethodPost, job+"/force-run", "")
	var run *otlp.Span
	poll(t, waitLimit, "the span of a run", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, span := range r.spans {
			if span.Name == "run job" && attributeOf(span, "millrace.job") == job {
				run = span
			}
		}
		return run != nil
	})
	if len(run.ParentSpanId) > 0 || attributeOf(run, "millrace.source") != source.ID {
		t.Errorf("the run is %v", run)
	}
	id := trace.TraceID(run.TraceId)
	want := fmt.Sprintf("00-%s-%s-01", id, hex.EncodeToString(run.SpanId))
	poll(t, waitLimit, "the item of the run", func() bool {
		status, text := s.say("/queues/crawl/take", `{"worker":"w","limit":100}`)
		var taken struct {
			Items []struct {
				ID          int64
				Generation  int
				TraceParent string
			}
		}
		if err := json.Unmarshal(text, &taken); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		found := false
		for _, item := range taken.Items {
			found = found || item.TraceParent == want
			if status, text := s.say(fmt.Sprintf("/queues/crawl/items/%d/done", item.ID),
				fmt.Sprintf(`{"generation":%d}`, item.Generation)); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
		}
		return found
	})
	for _, name := range []string{"start crawl", "done crawl", "record success"} {
		if span := r.await(t, id, name); !within(span, run) {
			t.Errorf("%v is not within %v", span, run)
		}
	}
}

// testShardTrace: the moves of shards that are registered within a trace are in it, and a report has a span in the trace
// of who sends it.
func testShardTrace(t *testing.T, s *server, r *receiver) {
	_, of, traced := callerSpan(8)
	const file = "20250101235959"
	tracedPost(t, s, shardsAPI+"/files/register", `{"filename":"`+file+`","shards":[1,2]}`, traced)
	added := r.await(t, of.TraceID(), "add shards")
	if request := r.await(t, of.TraceID(), "POST "+api+shardsAPI+"/files/register"); !within(added, request) {
		t.Errorf("%v is not within %v", added, request)
	}
	js, err := jetstream.New(s.nats())
	if err != nil {
		t.Fatal(err)
	}
	_, reporter, byReporter := callerSpan(9)
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{
		Subject: stream.ShardSubject("event-ingest", "done"), Data: []byte(`{"filename":"` + file + `"}`),
		Header: nats.Header{stream.TraceParent: {byReporter}},
	}); err != nil {
		t.Fatal(err)
	}
	report := r.await(t, reporter.TraceID(), "fold "+stream.Shards)
	if id := reporter.SpanID(); !bytes.Equal(report.ParentSpanId, id[:]) || len(report.Links) != 1 {
		t.Fatalf("the report has the span %v", report)
	}
	batch := r.await(t, trace.TraceID(report.Links[0].TraceId), "write batch of "+stream.Shards)
	if moved := r.await(t, of.TraceID(), "done event-ingest"); !within(moved, added) || !linked(moved, batch) {
		t.Errorf("the move %v is not within %v, or has no link to %v", moved, added, batch)
	}
	consumer, err := js.Consumer(t.Context(), stream.Work, "shard-splitter")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(waitLimit))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := msg.Headers().Get(stream.TraceParent), fmt.Sprintf("00-%s-%x-01", of.TraceID(), added.SpanId); got != want {
		t.Errorf("the message of a shard has the trace %q, want %q", got, want)
	}
	if err := msg.Ack(); err != nil {
		t.Fatal(err)
	}
	if done := r.await(t, of.TraceID(), "done shard-splitter"); !within(done, added) {
		t.Errorf("%v is not within %v", done, added)
	}
}

package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/client"
	embedded "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// A service emits what happens and does not wait for it to be delivered.
func ExampleClient_Emit() {
	url, stop := startNATS()
	defer stop()

	c, err := client.Open(client.Options{
		URL: url, Service: "crawler", Log: slog.Default(), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		log.Fatal(err)
	}
	// An error is logged and counted by the client; a service may ignore it.
	_ = c.Emit(context.Background(), event.Event{
		ArticleURL: "https://example.com/article-1", SourceName: "example_com", Stage: "crawled",
		Metadata: map[string]any{"response_code": 200},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Close(ctx); err != nil { // delivers what waits
		log.Fatal(err)
	}
	fmt.Println(stored(url), "event")
	// Output: 1 event
}

// Over HTTP, to a server behind a path prefix, with a token.
func ExampleClient_EmitBatch() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Events []event.Event }
		_ = json.NewDecoder(r.Body).Decode(&body)
		fmt.Println(r.URL.Path, len(body.Events), "events")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"accepted":%d,"duplicates":0,"rejected":[]}`, len(body.Events))
	}))
	defer server.Close()

	c, err := client.Open(client.Options{URL: server.URL + "/api/pipeline", Token: "eyJ…", Service: "classifier"})
	if err != nil {
		log.Fatal(err)
	}
	var events []event.Event
	for i := range 3 {
		events = append(events, event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/article-%d", i), SourceName: "example_com",
			Stage:    "classified",
			Metadata: map[string]any{"quality_score": 78, "model_version": "v2.1", "is_reclassification": true},
		})
	}
	if err := c.EmitBatch(context.Background(), events); err != nil {
		log.Print(err)
	}
	if err := c.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: /api/pipeline/api/v1/events/batch 3 events
}

// Without an address the client does nothing: services are rolled out first,
// and switched on by MILLRACE_NATS_URL or PIPELINE_SERVICE_URL.
func ExampleFromEnv() {
	c, err := client.Open(client.FromEnv("crawler"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())
	fmt.Println(c.Emit(context.Background(), event.Event{}), c.Health().Circuit)
	// Output: <nil> off
}

// With a spool, events outlast an outage of Millrace and a restart of the
// service.
func ExampleOptions_spool() {
	url, stop := startNATS()
	stop() // Millrace is away

	dir, err := os.MkdirTemp("", "spool-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	o := client.Options{URL: url, Service: "crawler", Spool: dir}
	c, err := client.Open(o)
	if err != nil {
		log.Fatal(err)
	}
	_ = c.Emit(context.Background(), event.Event{
		ArticleURL: "https://example.com/article-1", SourceName: "example_com",
		Stage: "crawled",
	})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(c.Close(gone))

	c, err = client.Open(o) // after a restart
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Health().Waiting, "event waits")
	_ = c.Close(gone)
	// Output:
	// <nil>
	// 1 event waits
}

// A service tells of its client in its own /health.
func ExampleClient_Health() {
	c, err := client.Open(client.Options{URL: "nats://user:secret@127.0.0.1:4222", Service: "publisher"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())
	text, _ := json.Marshal(map[string]any{"status": "ok", "pipeline": c.Health()})
	fmt.Println(string(text))
	// Output: {"pipeline":{"circuit":"closed","target_url":"nats://127.0.0.1:4222","consecutive_failures":0,"waiting":0,"waiting_bytes":0,"dropped":0},"status":"ok"}
}

// Who has to know what became of each event publishes and waits.
func ExamplePublisher_EmitBatch() {
	url, stop := startNATS()
	defer stop()

	nc, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	p, err := client.New(nc, client.Config{Service: "crawler"})
	if err != nil {
		log.Fatal(err)
	}
	e := event.Event{
		ArticleURL: "https://example.com/article-1", SourceName: "example_com", Stage: "crawled",
		OccurredAt: time.Now(),
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	outcomes, err := p.EmitBatch(ctx, []event.Event{e, e})
	fmt.Println(outcomes[0].Status, outcomes[1].Status, err)
	// Output: accepted duplicate <nil>
}

// startNATS runs a NATS server with Millrace's streams.
func startNATS() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "nats-*")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := embedded.New(embedded.Config{
		Listen: "127.0.0.1:0", StoreDir: dir, User: "millrace",
		Password: "example",
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	<-srv.Ready()
	if err := stream.Ensure(ctx, jetStream(srv.ClientURL()), stream.Config{}); err != nil {
		log.Fatal(err)
	}
	return srv.ClientURL(), func() { cancel(); <-done; os.RemoveAll(dir) }
}

func jetStream(url string) jetstream.JetStream {
	nc, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	return js
}

func stored(url string) uint64 {
	s, err := jetStream(url).Stream(context.Background(), stream.Events)
	if err != nil {
		log.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// BenchmarkBacklog drains a backlog of events from the stream to the tables. On a
// busy machine compare the processor time: it is that of this process, the NATS
// server included, and not ClickHouse's.
func BenchmarkBacklog(b *testing.B) {
	const events = 50_000
	nc := embeddedtest.Connect(b, embeddedtest.NATS(b))
	js, err := jetstream.New(nc)
	must(b, err)
	must(b, stream.Ensure(b.Context(), js, stream.Config{DedupWindow: 100 * time.Millisecond}))
	stages, err := event.ParseStages(event.DefaultStages)
	must(b, err)
	publishBacklog(b, nc, stages, events)
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		must(b, js.DeleteKeyValue(b.Context(), stream.Checkpoints))
		must(b, stream.Ensure(b.Context(), js, stream.Config{DedupWindow: 100 * time.Millisecond}))
		ch := engine.Database(b)
		db, err := clickhouse.Open(ch)
		must(b, err)
		p, err := pipeline.New(pipeline.Config{Stages: stages, Dir: b.TempDir(), SlotGroups: 1}, nc, ch,
			prometheus.NewRegistry(), embeddedtest.Log(b))
		must(b, err)
		b.StartTimer()
		before := processTime(b)
		stop := run(b, p)
		for n := uint64(0); n < events; time.Sleep(20 * time.Millisecond) {
			must(b, db.QueryRow(b.Context(), "SELECT count() FROM events").Scan(&n))
		}
		b.StopTimer()
		used += processTime(b) - before
		stop()
		must(b, db.Close())
		b.StartTimer()
	}
	b.ReportMetric(used.Seconds()*1e6/float64(b.N)/events, "cpu-µs/event")
}

// run runs a projector until stop.
func run(b *testing.B, p *pipeline.Projector) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		must(b, <-ended)
	}
}

// processTime is the time that processors have spent on this process, which has
// NATS and the projector in it.
func processTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// publishBacklog stores events as a day of live traffic has them: in order of
// time, 300 sources, five stages.
func publishBacklog(b *testing.B, nc *nats.Conn, stages event.Stages, n int) {
	publisher, err := client.New(nc, client.Config{})
	must(b, err)
	var messages []client.Message
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Now().Add(-20 * time.Hour)
	for i := range n {
		at := start.Add(time.Duration(i) * (20 * time.Hour / time.Duration(n)))
		text := fmt.Appendf(nil, `{"article_url":"https://news.example.com/2026/02/10/a-longer-article-title-%d",`+
			`"source_name":"source_%d","stage":"%s","occurred_at":"%s","service_name":"classifier",`+
			`"metadata":{"quality_score":%d,"topics":["crime","news"],"content_type":"article",`+
			`"model_version":"v2.1","processing_time_ms":%d}}`,
			i, rng.IntN(300), stages.Names()[rng.IntN(5)], at.UTC().Format(time.RFC3339Nano), rng.IntN(100),
			rng.IntN(500))
		var r event.Record
		if err := event.Decode(text, &r); err != nil {
			b.Fatal(err)
		}
		if messages = append(messages, client.EventMessage(&r, text)); len(messages) == 10_000 {
			outcomes, err := publisher.PublishRaw(b.Context(), messages)
			must(b, err)
			for _, o := range outcomes {
				must(b, o.Err)
				if o.Status != client.Accepted {
					b.Fatalf("an event of a backlog is %v", o.Status)
				}
			}
			messages = messages[:0]
		}
	}
}

package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/stream"
)

// BenchmarkInvented publishes an event to a subject of its own in each iteration,
// and tells what memory the broker then holds:
// go test ./projector/pipeline -run '^$' -bench . -benchtime 1000000x
func BenchmarkInvented(b *testing.B) {
	for _, guarded := range []bool{false, true} {
		b.Run(fmt.Sprintf("guarded=%t", guarded), func(b *testing.B) {
			js := natstest.Start(b, stream.Config{}).JetStream()
			if guarded {
				g, err := pipeline.NewSubjects(pipeline.SubjectsConfig{Stages: []string{"crawled"}}, js,
					slog.New(slog.DiscardHandler))
				must(b, err)
				ctx, cancel := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				go func() { ended <- g.Run(ctx) }()
				defer func() { cancel(); must(b, <-ended) }()
			}
			before, refused := inUse(), 0
			b.ResetTimer()
			const size = 1000
			for from := 0; from < b.N; from += size {
				batch := make([]*nats.Msg, size)
				for i := range batch {
					batch[i] = &nats.Msg{
						Subject: fmt.Sprintf("events.invented-by-%d.publisher", from+i),
						Data:    []byte("{}"), Header: nats.Header{},
					}
				}
				ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
				if _, err := jetstreamext.PublishMsgBatch(ctx, js, batch); err != nil {
					refused += len(batch)
				}
				cancel()
			}
			b.StopTimer()
			b.ReportMetric(float64(int64(inUse())-int64(before))/1e6, "MB")
			b.ReportMetric(float64(refused), "refused")
		})
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

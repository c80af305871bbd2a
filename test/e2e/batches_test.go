package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// testBatches: events are taken over HTTP, many at a time, while somebody holds all the
// atomic batches that a stream may have under way.
func testBatches(t *testing.T, s *server) {
	nc, err := nats.Connect(s.natsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan struct{}, 1)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			for i := range 60 {
				m := nats.NewMsg("events.crawled.00")
				m.Header.Set("Nats-Batch-Id", fmt.Sprintf("held-%d-%d", n, i))
				m.Header.Set("Nats-Batch-Sequence", "1")
				_ = nc.PublishMsg(m)
			}
			_ = nc.Flush()
			select {
			case held <- struct{}{}:
			default:
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond): // a place that is free is taken at once
			}
		}
	}()
	<-held
	writer := token(t, "events:write")
	for batch := range 10 {
		body := `{"events":[`
		for i := range 100 {
			if i > 0 {
				body += ","
			}
			body += valid(map[string]any{
				"source_name": "batches", "article_url": fmt.Sprintf("https://example.com/batches/%d/%d", batch, i),
			})
		}
		status, answer := s.patient(t, "events", func() (int, []byte) {
			return s.with(t, writer, http.MethodPost, "/events/batch", body+"]}")
		})
		if status/100 != 2 {
			t.Fatalf("status %d: %.300s", status, answer)
		}
	}
}

package publish

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestNoPlaceForBatches: a publisher publishes all the same, without trying again,
// while somebody holds all the batches that a stream may have under way.
func TestNoPlaceForBatches(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, stream.Config{})
	hold(t, s.Connect())
	var log bytes.Buffer
	p := publisher(t, s.Connect(), Config{Log: slog.New(slog.NewTextHandler(&log, nil)), InFlight: 1})
	publish(t, p, messages(0, 3000), 3000, 0)
	if log.Len() > 0 {
		t.Errorf("the publisher tried again:\n%s", &log)
	}
	if p.batchesFrom.Load() == nil {
		t.Error("there was place for a batch: the test shows nothing")
	}
	eachOnce(t, s, 3000)
	none := time.Now()
	p.batchesFrom.Store(&none)
	publish(t, p, messages(3000, 4000), 1000, 0)
}

// hold begins as many batches as a stream may have under way.
func hold(t *testing.T, nc *nats.Conn) {
	t.Helper()
	for i := range 50 {
		m := nats.NewMsg("events.crawled.00")
		m.Header.Set("Nats-Batch-Id", fmt.Sprint("held-", i))
		m.Header.Set("Nats-Batch-Sequence", "1")
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

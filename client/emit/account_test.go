package emit

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAccountLimit holds invariant 2 of a client whose account has no room: it
// keeps the events until there is.
func TestAccountLimit(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	must(t, err)
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	nc, err := nats.Connect(s.ClientURL())
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, stream.Ensure(t.Context(), js, stream.Config{}))
	storage := func(limit int64) {
		must(t, s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{
			"": {
				MaxMemory: -1, MaxStore: limit, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1,
				MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
			},
		}))
	}
	storage(10_000)
	logs := &lines{}
	c := open(t, Options{
		URL: s.ClientURL(), Spool: t.TempDir(), Timeout: 500 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(logs, nil)),
	})
	must(t, c.EmitBatch(t.Context(), crawledUpTo(600)))
	logs.await(t, "pipeline circuit breaker opened")
	if h := c.Health(); h.Waiting == 0 || h.Dropped != 0 {
		t.Errorf("%+v", h)
	}
	storage(-1)
	must(t, c.Flush(within(t)))
	events, err := js.Stream(t.Context(), stream.Events)
	must(t, err)
	if n, refused := events.CachedInfo().State.Msgs, logs.count("pipeline event not emitted"); n < 600 || refused != 0 {
		t.Errorf("%d of 600 events are stored, %d were given up", n, refused)
	}
	if failed := testutil.ToFloat64(c.metrics.emits.WithLabelValues("error", "crawled")); failed == 0 {
		t.Error("the deliveries that failed are not counted")
	}
}

package client

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAnswers: only what is about the message itself makes it fail for good.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		code, number int
		text         string
		want         error // nil: it is worth another attempt
	}{
		{400, 10002, "resource limits exceeded for account", ErrStreamFull},
		{400, 10120, "no JetStream default or applicable tiered limit present", ErrStreamFull},
		{400, 10122, "stream max bytes exceeds account limit max stream bytes", ErrStreamFull},
		{400, 10109, "invalid operation on sealed stream", ErrStreamFull},
		{503, 10077, "maximum bytes exceeded", ErrStreamFull},
		{503, 10077, "no space left on device", nil},
		{400, 10054, "message size exceeds maximum allowed", ErrTooLarge},
		{400, 10097, "header size exceeds maximum allowed of 64k", ErrTooLarge},
		{400, 10174, "atomic publish is disabled", ErrRefused},
		{400, 10199, "atomic publish batch is too large: 100", ErrRefused},
		{400, 10201, "atomic publish batch contains duplicate message id", nil},
		{409, 10158, "duplicate message id is in process", nil},
		{500, 10009, "JetStream cluster can not handle request", nil},
		{400, 19999, "an error that is yet to be invented", nil},
	} {
		err := classify(fmt.Errorf("publish: %w", &jetstream.APIError{Code: c.code, ErrorCode: jetstream.ErrorCode(c.number), Description: c.text}))
		for _, kind := range []error{ErrStreamFull, ErrTooLarge, ErrRefused} {
			if errors.Is(err, kind) != (c.want == kind) {
				t.Errorf("%d: %v", c.number, err)
			}
		}
		if fate := fateOf(err); (fate == fateFailed) != (c.want != nil) || fate == fateUnknown || final(err) != (c.want == ErrTooLarge || c.want == ErrRefused) {
			t.Errorf("%d: its fate is %d, final %v", c.number, fate, final(err))
		}
	}
}

// TestAccountLimit holds invariant 2 of a client whose account has no room: it
// keeps the events until there is.
func TestAccountLimit(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
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
			"": {MaxMemory: -1, MaxStore: limit, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1},
		}))
	}
	storage(10_000)
	logs := &lines{}
	c := open(t, Options{URL: s.ClientURL(), Spool: t.TempDir(), Timeout: 500 * time.Millisecond, Log: slog.New(slog.NewTextHandler(logs, nil))})
	must(t, c.EmitBatch(t.Context(), crawledUpTo(600)))
	logs.await(t, "pipeline circuit breaker opened")
	if h := c.Health(); h.Waiting == 0 || h.Dropped != 0 {
		t.Errorf("%+v", h)
	}
	storage(-1)
	must(t, c.Flush(within(t)))
	events, err := js.Stream(t.Context(), stream.Events)
	must(t, err)
	if n, refused := events.CachedInfo().State.Msgs, testutil.ToFloat64(c.metrics.emits.WithLabelValues("error", "crawled")); n != 600 || refused != 0 {
		t.Errorf("%d of 600 events are stored, %v were given up", n, refused)
	}
}

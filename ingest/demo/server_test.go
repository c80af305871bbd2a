package demo

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// restarting is a client whose server is away for its second call. It ends
// the demo once enough is stored.
type restarting struct {
	*client.Publisher
	server *natstest.Server
	enough int
	stop   context.CancelFunc
	calls  int
	stored int
	start  time.Time
	t      *testing.T
}

func (r *restarting) EmitBatch(ctx context.Context, events []event.Event) ([]client.Outcome, error) {
	if r.calls++; r.calls == 2 {
		r.server.Stop()
		defer r.server.Start()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	}
	outcomes, err := r.Publisher.EmitBatch(ctx, events)
	if r.stored == 0 {
		r.t.Logf("first events stored after %s", time.Since(r.start))
	}
	for _, o := range outcomes {
		if o.Status == client.Accepted {
			r.stored++
		}
	}
	if r.stored >= r.enough {
		r.stop()
	}
	return outcomes, err
}

func TestThroughTheClient(t *testing.T) {
	server := natstest.Start(t, stream.Config{})
	publisher, err := client.New(server.Connect(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := &restarting{
		Publisher: publisher, server: server, enough: warmUpEvents * 11 / 10, stop: stop,
		start: time.Now(), t: t,
	}
	demo, err := New(Config{Stages: parse(t, event.DefaultStages), Pace: 1000, WarmUp: true}, r,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if ids := server.IDs(); len(ids) != r.stored {
		t.Errorf("%d messages on the stream, %d acknowledged", len(ids), r.stored)
	}
}

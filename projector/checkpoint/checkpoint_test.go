package checkpoint

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

func open(t *testing.T, kv jetstream.KeyValue, owner string) *Log {
	t.Helper()
	l, err := Open(t.Context(), kv, "funnel.0", owner)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestDecisions holds invariant 3 of the projector: bounds are decided once,
// and whoever has been replaced decides nothing more.
func TestDecisions(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(t.Context(), stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, kv, "a")
	must(a.Take(ctx))
	must(a.Decide(ctx, 0, 10))
	must(a.Decide(ctx, 0, 10)) // the same again
	if a.Decide(ctx, 0, 11) == nil || a.Decide(ctx, 5, 20) == nil {
		t.Error("a decided batch got other bounds")
	}
	must(a.Decide(ctx, 10, 25))

	b := open(t, kv, "b")
	if r := b.Record(); r.From != 10 || r.To != 25 || r.Owner != "a" {
		t.Errorf("b finds %+v", r)
	}
	must(b.Take(ctx))
	for name, err := range map[string]error{
		"decide": a.Decide(ctx, 25, 30), "done": a.Done(ctx, 25, 0), "release": a.Release(ctx), "take": a.Take(ctx),
	} {
		if !errors.Is(err, ErrLost) {
			t.Errorf("%s after b has taken over: %v", name, err)
		}
	}
	if b.Decide(ctx, 10, 20) == nil {
		t.Error("b cut a's batch anew")
	}
	must(b.Decide(ctx, 10, 25))
	must(b.Done(ctx, 25, 0))
	must(b.Release(ctx))
	if r := open(t, kv, "c").Record(); r.From != 25 || r.To != 25 || r.Owner != "" {
		t.Errorf("c finds %+v", r)
	}
}

package fold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeeper: an owner keeps its lease while a step takes longer than that, not
// while its sink fails, and stops when it has been replaced.
func TestKeeper(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(t.Context(), stream.Checkpoints)
	must(t, err)
	owned := func(name string) *LeaseLog[struct{}] {
		l, err := OpenLog[struct{}](t.Context(), kv, "group", name, 0)
		must(t, err)
		return l
	}
	var failing atomic.Bool
	lease := owned("a")
	k := &keeper{
		lease: lease, time: 600 * time.Millisecond, pulse: NewPulse(), failing: failing.Load,
		began: time.Now(),
	}
	must(t, lease.Take(t.Context()))
	must(t, lease.Decide(t.Context(), 0, 10, ""))

	must(t, k.during(t.Context(), func(ctx context.Context) error {
		for before, renewed := owned("b").Revision(), 0; renewed < 3; {
			if now := owned("b").Revision(); now != before {
				before, renewed = now, renewed+1
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}))

	failing.Store(true)
	before := lease.Revision()
	if err := k.renew(t.Context(), time.Now()); err != nil || lease.Revision() != before {
		t.Errorf("an owner whose sink fails renews its lease: %v", err)
	}
	if err := k.rest(t.Context(), 10, 0); err != nil || lease.Revision() != before { // it needs rows for its next batch
		t.Errorf("an idle owner whose sink fails renews its lease: %v", err)
	}
	failing.Store(false)
	if err := k.renew(t.Context(), time.Now().Add(-time.Hour)); err != nil || lease.Revision() != before {
		t.Errorf("an owner that does the same for an hour renews its lease: %v", err)
	}

	err = k.during(t.Context(), func(ctx context.Context) error {
		for { // a renewal may come between reading and taking
			if err := owned("b").Take(ctx); err == nil {
				break
			} else if !errors.Is(err, ErrLost) {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, ErrLost) {
		t.Errorf("an owner that was replaced goes on: %v", err)
	}
}

// TestPulse: a session is silent when its last sign of life is too old.
func TestPulse(t *testing.T) {
	p := new(Pulse)
	if !p.Silent(time.Hour) {
		t.Error("it is alive though nothing was heard of it")
	}
	if p.Beat(); p.Silent(time.Hour) {
		t.Error("it is silent at once")
	}
	if time.Sleep(time.Millisecond); !p.Silent(0) {
		t.Error("it is never silent")
	}
}

package pipeline

import (
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// TestGroupLease: what was counted is written with the first position that has
// reached it, and carried over from owner to owner, through the end of a group,
// until it is to be forgotten. Where messages were given up it stays behind. It
// never lies behind the position.
func TestGroupLease(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	ctx := t.Context()
	kv, err := srv.JetStream().KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	open := func(owner string) *groupLease {
		t.Helper()
		l, err := assignment.OpenLease(ctx, kv, slots.Group{}, owner)
		if err != nil {
			t.Fatal(err)
		}
		return newGroupLease(l)
	}
	a := open("a")
	step := func(what string, err error, at uint64) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want := contract.Known{At: at, Identities: checkpoint.Sum{Count: at / 2}}
		if r := open("").Record(); r.View.Known != want {
			t.Errorf("after %s it knows %+v, want %+v", what, r.View.Known, want)
		}
	}
	know := func(at uint64) { a.Know(contract.Known{At: at, Identities: checkpoint.Sum{Count: at / 2}}) }
	step("taking", a.Take(ctx), 0)
	step("a first batch", a.Decide(ctx, 0, 10, ""), 0)
	know(10)
	step("renewing before the position has moved", a.Renew(ctx), 0)
	step("a second batch", a.Decide(ctx, 10, 20, ""), 10)
	know(20)
	step("resting", a.Done(ctx, 20, 0), 20)
	step("renewing", a.Renew(ctx), 20)
	step("a third batch", a.Decide(ctx, 20, 30, ""), 20)
	step("giving it up", a.Done(ctx, 30, 0), 20)
	step("releasing", a.Release(ctx), 20)
	a = open("b")
	step("another owner", a.Take(ctx), 20)
	know(30)
	step("another owner's rest", a.Done(ctx, 30, 0), 30)
	step("the end", a.Close(ctx), 30)
	step("forgetting", Accept(ctx, open("").Lease), 0)
	if r := open("").Record(); r.From != 30 || !r.Closing {
		t.Errorf("one that has forgotten is at %+v", r)
	}
}

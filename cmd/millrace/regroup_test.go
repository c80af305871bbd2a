package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestRegroup asks for changes, in every state in which one can be.
func TestRegroup(t *testing.T) {
	ctx := t.Context()
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	call := func(status int, says string, args ...string) {
		t.Helper()
		var out, errOut bytes.Buffer
		args = append([]string{"regroup", "--nats-url=" + srv.URL()}, args...)
		if got := run(args, nil, &out, &errOut, 0); got != status ||
			!strings.Contains(out.String()+errOut.String(), says) {
			t.Errorf("%v ended with %d, not %d and %q:\n%s%s", args, got, status, says, &out, &errOut)
		}
	}
	call(statusUsage, "--slot-groups")
	call(statusUsage, "256 slots", "--slot-groups=257")
	call(statusUsage, "256 slots", "--slot-groups=0")
	call(statusFailed, "nothing has been folded yet", "--slot-groups=2")
	if _, err := assignment.AgreeLayout(ctx, kv, 1); err != nil {
		t.Fatal(err)
	}
	call(0, "1 already", "--slot-groups=1")
	call(0, "3 asked for", "--slot-groups=3", "--no-wait")
	call(statusFailed, slots.ErrUnderWay.Error(), "--slot-groups=2")

	always := func(slots.Group, *assignment.Lease) bool { return true }
	if cut, err := assignment.CutLayout(ctx, kv, always); !cut || err != nil {
		t.Fatal(cut, err)
	}
	l, err := assignment.ReadLayout(ctx, kv)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range l.Current() {
		log, err := assignment.OpenLease(ctx, kv, g, "a")
		if err == nil {
			err = log.Take(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	call(0, "3 already", "--slot-groups=3")
	call(0, "2 asked for", "--slot-groups=2", "--no-wait")
}

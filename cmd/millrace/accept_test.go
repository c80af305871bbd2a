package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAccept: a group forgets what was counted, and keeps its position; no other
// one does.
func TestAccept(t *testing.T) {
	ctx := t.Context()
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := assignment.AgreeLayout(ctx, kv, 2); err != nil {
		t.Fatal(err)
	}
	open := func(id uint32) *assignment.Lease {
		l, err := assignment.OpenLease(ctx, kv, slots.Group{ID: id}, "a")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for id := range uint32(2) {
		l := open(id)
		l.Keep(func(uint64, funnel.Counts) funnel.Counts {
			return funnel.Counts{Known: funnel.Known{At: 5, Identities: checkpoint.Sum{Count: 3}}}
		})
		if err := l.Decide(ctx, 5, 9, ""); err != nil {
			t.Fatal(err)
		}
	}
	call := func(status int, says string, args ...string) {
		t.Helper()
		var out, errOut bytes.Buffer
		args = append([]string{"accept-identities", "--nats-url=" + srv.URL()}, args...)
		if got := run(args, nil, &out, &errOut, 0); got != status ||
			!strings.Contains(out.String()+errOut.String(), says) {
			t.Errorf("%v ended with %d, not %d and %q:\n%s%s", args, got, status, says, &out, &errOut)
		}
	}
	call(statusUsage, "--slot-group")
	call(statusFailed, "no slot group 2", "--slot-group=2")
	call(0, "up to sequence 5, which were 3", "--slot-group=1")
	call(0, "nothing to forget", "--slot-group=1")
	if r := open(1).Record(); r.View.Known != (funnel.Known{}) || r.From != 5 || r.To != 9 || r.Owner != "" {
		t.Errorf("group 1 is at %+v", r)
	}
	if r := open(0).Record(); r.View.Known.At != 5 || r.Owner != "a" {
		t.Errorf("group 0 is at %+v", r)
	}
}

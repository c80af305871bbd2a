package query

import (
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestNoProjectorIsAtWork: a view that was not behind when it was last asked
// about, however long ago, is not taken for one that has stood still since.
func TestNoProjectorIsAtWork(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	var folded uint64
	p := &position{nc: srv.Connect(), js: srv.JetStream(), folded: func() uint64 { return folded }}
	publish := func() {
		if _, err := p.js.Publish(t.Context(), stream.EventSubject("crawled", [32]byte{}), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	pass := func() { p.movedAt = p.movedAt.Add(-2 * stuckAfter) } // time, since it was last asked
	for range 2 {
		if err := p.check(t.Context()); err != nil {
			t.Fatalf("nothing is left to fold: %v", err)
		}
		if !p.movedAt.IsZero() {
			pass()
		}
		publish()
		if err := p.check(t.Context()); err != nil {
			t.Fatalf("a message has just come: %v", err)
		}
		pass()
		if err := p.check(t.Context()); err == nil {
			t.Fatal("nothing has moved for a minute, and no error")
		}
		publish()
		folded++
		if err := p.check(t.Context()); err != nil {
			t.Fatalf("the view catches up: %v", err)
		}
		folded++
	}
}

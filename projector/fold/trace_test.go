package fold

import (
	"testing"

	"github.com/millrace-io/millrace/schemas/stream"
)

// TestUntraced: without a tracer, and for messages that nobody traces, a message costs nothing.
func TestUntraced(t *testing.T) {
	f := &Fold[int]{}
	traced := Message{Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Subject: stream.BatchesReadSubject}
	if n := testing.AllocsPerRun(100, func() { f.trace(traced); f.trace(Message{}) }); n > 0 {
		t.Errorf("a message costs %v allocations", n)
	}
	if f.folder.traces != nil {
		t.Errorf("spans %v", f.folder.traces)
	}
}

package batches

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/parts"
)

// TestUntraced: without a tracer, reading a batch costs nothing for traces, and what is published has no header of one.
func TestUntraced(t *testing.T) {
	r, ctx := &Readers{}, t.Context()
	m := &message{trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	value := parts.Value{&nats.Msg{Header: nats.Header{}}}
	failed := errors.New("no")
	if n := testing.AllocsPerRun(100, func() {
		within, span := r.trace(ctx, m, 1)
		traceValue(within, value)
		end(span, failed)
		_, span = published(ctx, "a")
		end(span, nil)
	}); n > 0 {
		t.Errorf("a batch costs %v allocations", n)
	}
	if sent := traced(ctx, "a", nil); len(value[0].Header)+len(sent.Header) > 0 {
		t.Errorf("headers %v and %v", value[0].Header, sent.Header)
	}
}

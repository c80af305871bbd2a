package fold

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-io/millrace/schemas/stream"
)

// traces are the spans of messages of one batch whose senders trace them: each lasts from
// when its message was folded until its batch was announced.
type traces []trace.Span

// trace begins the span of a message of the open batch, if its sender traces it.
func (f *Fold[B]) trace(m Message) {
	o := &f.folder
	if f.deps.Tracer == nil || m.Trace == "" || len(o.traces) >= stream.MostTraced {
		return
	}
	_, span := f.deps.Tracer.Start(stream.WithTrace(context.Background(), m.Trace), "fold "+f.deps.Input.Name(),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.destination.name", m.Subject), attribute.Int64("millrace.seq", int64(m.Seq))))
	if span.IsRecording() {
		o.traces = append(o.traces, span)
	}
}

// batchSpan begins the span of a batch, with links from and to the spans of its messages. A batch
// that nobody traces has none.
func (f *Fold[B]) batchSpan(ctx context.Context, s sealed[B]) (context.Context, trace.Span) {
	if len(s.traces) == 0 {
		return ctx, noop.Span{}
	}
	links := make([]trace.Link, len(s.traces))
	for i, span := range s.traces {
		links[i].SpanContext = span.SpanContext()
	}
	ctx, span := f.deps.Tracer.Start(ctx, "write batch of "+f.deps.Input.Name(), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("millrace.batch", fmt.Sprintf("(%d, %d]", s.cut.From, s.cut.To))))
	for _, one := range s.traces {
		one.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, span
}

// end ends the spans of the messages. Those of a batch that has failed say so: the next
// session folds their messages again.
func (t traces) end(err error) {
	for _, span := range t {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

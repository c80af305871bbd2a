package batches

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/schemas/stream"
)

// trace begins the span of an attempt at a message, if its sender traces it.
func (r *Readers) trace(ctx context.Context, m *message, seq uint64) (context.Context, trace.Span) {
	if r.deps.Tracer == nil || m.trace == "" {
		return ctx, noop.Span{}
	}
	a := &m.about
	return r.deps.Tracer.Start(stream.WithTrace(ctx, m.trace), "read batch", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.destination.name", m.subject), attribute.Int64("millrace.seq", int64(seq)),
			attribute.String("millrace.format", a.Format.String()), attribute.String("millrace.job", a.Batch.Job),
			attribute.Int("millrace.batch_index", int(a.Batch.Index)),
		))
}

// end ends a span with what has become of it.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// traceValue has what is published continue the trace of ctx. A value is taken with its last part.
func traceValue(ctx context.Context, v parts.Value) {
	if text := stream.TraceOf(ctx); text != "" && len(v) > 0 {
		v[len(v)-1].Header.Set(stream.TraceParent, text)
	}
}

// traced is a message that continues the trace of ctx.
func traced(ctx context.Context, subject string, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if text := stream.TraceOf(ctx); text != "" {
		m.Header = nats.Header{stream.TraceParent: {text}}
	}
	return m
}

// published begins the span of a message that is published, within that of ctx and with its provider.
func published(ctx context.Context, subject string) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, noop.Span{}
	}
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("millrace")
	return tracer.Start(ctx, "publish "+subject, trace.WithSpanKind(trace.SpanKindProducer))
}

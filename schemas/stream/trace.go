package stream

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// TraceParent is the header of messages and of HTTP requests that names the span which sent
// them (W3C Trace Context).
const TraceParent = "traceparent"

// MostTraced bounds the messages, or items, of one batch that have a span of their own:
// whoever may send them decides which are traced.
const MostTraced = 128

// traceParentSize is the length of every value of TraceParent in version 00.
const traceParentSize = 55

// TraceOf returns the value of TraceParent for the span of ctx; empty where ctx has none.
func TraceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[TraceParent]
}

// WithTrace returns ctx with the span that a value of TraceParent names. Anybody may have
// sent the value: one of any other form changes nothing.
func WithTrace(ctx context.Context, value string) context.Context {
	if len(value) != traceParentSize {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{TraceParent: value})
}

package publish

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traced tells whether the caller is within a span that is exported. What it publishes goes
// on in the same trace.
func traced(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// begin begins a span within the caller's, with the caller's provider.
func begin(ctx context.Context, name string) (context.Context, trace.Span) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/millrace-io/millrace/client")
	return tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer))
}

// end ends a span with what has become of it.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

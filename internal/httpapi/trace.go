package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-io/millrace/schemas/stream"
)

// probes are asked every few seconds by machines, and have no spans.
var probes = []string{"/health", "/ready", "/metrics"}

// trace begins the span of a request, within its caller's. A WebSocket has none: it is no
// request that is answered.
func (s *Server) trace(r *http.Request) (*http.Request, trace.Span) {
	if s.tracer == nil || slices.Contains(probes, r.URL.Path) || r.Header.Get("Upgrade") != "" {
		return r, noop.Span{}
	}
	ctx, span := s.tracer.Start(stream.WithTrace(r.Context(), r.Header.Get(stream.TraceParent)), method(r.Method),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.request.method", method(r.Method))))
	return r.WithContext(ctx), span
}

// endTrace ends the span of a request, with the route that it has matched.
func endTrace(span trace.Span, w *recorder, r *http.Request) {
	if !span.IsRecording() {
		return
	}
	status := cmp.Or(w.status, http.StatusOK)
	span.SetName(method(r.Method) + " " + route(r))
	span.SetAttributes(attribute.String("http.route", route(r)), attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// exporters are the values of OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL that
// are supported, with the empty one, their default.
const (
	exporterOTLP  = "otlp"
	exporterNone  = "none"
	protocolProto = "http/protobuf"
	protocolGRPC  = "grpc"
)

// exportProtocol returns the protocol of the export that the environment asks for. Without an endpoint or an exporter it asks
// for none, which is "", so that nothing connects anywhere by default.
func exportProtocol() (protocol string, err error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") + os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		if endpoint == "" {
			return "", nil
		}
	case exporterOTLP:
	case exporterNone:
		return "", nil
	default:
		return "", fmt.Errorf("OTEL_TRACES_EXPORTER is %q: it must be %s or %s", exporter, exporterOTLP, exporterNone)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := os.Getenv(name); protocol {
		case "":
			continue // the next one counts
		case protocolProto, protocolGRPC:
			return protocol, nil
		default:
			return "", fmt.Errorf("%s is %q: it must be %s or %s", name, protocol, protocolProto, protocolGRPC)
		}
	}
	return protocolProto, nil
}

// newSpanExporter returns an exporter that is configured by the standard variables. It connects when there are spans.
func newSpanExporter(ctx context.Context, protocol string) (*otlptrace.Exporter, error) {
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// openTracer returns the tracer that the standard OTEL_* variables of the environment ask for, and nil where they ask
// for none: components with a nil tracer record no spans. Call close to send the last spans. What continues from process
// to process is in package stream (TraceOf, WithTrace).
func openTracer(ctx context.Context, version string, log *slog.Logger) (
	tracer trace.Tracer, close func(context.Context) error, err error,
) {
	protocol, err := exportProtocol()
	if err != nil || protocol == "" {
		return nil, func(context.Context) error { return nil }, err
	}
	exporter, err := newSpanExporter(ctx, protocol)
	if err != nil {
		return nil, nil, fmt.Errorf("export traces by OTLP: %w", err)
	}
	of, err := resource.New(ctx, resource.WithHost(), resource.WithProcessPID(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "millrace"), attribute.String("service.version", version)),
		resource.WithFromEnv()) // last: OTEL_SERVICE_NAME replaces the name
	if err != nil {
		return nil, nil, fmt.Errorf("export traces by OTLP: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(&exportFailures{log: log}) // of the exporter, which has no other way to tell
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(of))
	return provider.Tracer("millrace"), provider.Shutdown, nil
}

// exportFailures logs that spans are not exported, once a minute.
type exportFailures struct {
	log  *slog.Logger
	told atomic.Int64 // the minute
}

// Handle implements otel.ErrorHandler.
func (f *exportFailures) Handle(err error) {
	if minute := time.Now().Unix() / 60; f.told.Swap(minute) != minute {
		f.log.Warn("traces are not exported", "error", err)
	}
}

// traceHandler adds the trace to what is logged within a span.
type traceHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if of := trace.SpanContextFromContext(ctx); of.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", of.TraceID().String()), slog.String("span_id", of.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}

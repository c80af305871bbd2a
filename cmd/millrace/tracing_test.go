package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// unsetTracing removes the variables that a test sets.
func unsetTracing(t *testing.T) {
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	} {
		t.Setenv(name, "")
	}
}

// TestTracingVariables: the standard variables switch the export on, and a value that is not supported is named with its variable.
func TestTracingVariables(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		on   bool
		says string
	}{
		{env: nil},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, says: `OTEL_TRACES_EXPORTER is "zipkin"`},
		{
			env:  map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
			says: `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json": it must be http/protobuf or grpc`,
		},
		{
			env:  map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "gRPC"},
			says: `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "gRPC"`,
		},
		{
			env: map[string]string{
				"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL": "other",
			},
			on: true, // that of traces alone counts
		},
	} {
		unsetTracing(t)
		for name, value := range c.env {
			t.Setenv(name, value)
		}
		tracer, end, err := openTracer(t.Context(), "test", slog.New(slog.DiscardHandler))
		if err != nil {
			if c.says == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: %v, want %q", c.env, err, c.says)
			}
			continue
		}
		if c.says != "" || (tracer != nil) != c.on {
			t.Errorf("%v: it is on: %v, want %v and %q", c.env, tracer != nil, c.on, c.says)
		}
		if err := end(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// spanReceiver receives spans by gRPC.
type spanReceiver struct {
	otlp.UnimplementedTraceServiceServer
	names chan string
}

func (s *spanReceiver) Export(
	_ context.Context, r *otlp.ExportTraceServiceRequest,
) (*otlp.ExportTraceServiceResponse, error) {
	for _, of := range r.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				s.names <- span.Name
			}
		}
	}
	return &otlp.ExportTraceServiceResponse{}, nil
}

// TestTracingProtocols: spans arrive by gRPC, and by HTTP.
func TestTracingProtocols(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, taken := grpc.NewServer(), &spanReceiver{names: make(chan string, 10)}
	otlp.RegisterTraceServiceServer(server, taken)
	go func() { _ = server.Serve(ln) }() // it ends with the test
	t.Cleanup(server.Stop)
	posted := make(chan string, 10)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { posted <- r.URL.Path }))
	t.Cleanup(web.Close)
	for _, c := range []struct {
		protocol, endpoint, want string
		got                      chan string
	}{
		{"grpc", "http://" + ln.Addr().String(), "one", taken.names},
		{"http/protobuf", web.URL, "/v1/traces", posted},
	} {
		unsetTracing(t)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", c.protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.endpoint)
		tracer, end, err := openTracer(t.Context(), "test", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		_, span := tracer.Start(t.Context(), "one")
		span.End()
		if err := end(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case got := <-c.got:
			if got != c.want {
				t.Errorf("%s: %q arrived, want %q", c.protocol, got, c.want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: nothing arrived", c.protocol)
		}
	}
}

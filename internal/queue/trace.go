package queue

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/schemas/stream"
)

// tracedMove is a move of an item that is traced. Its span lasts as long as the transaction
// that made it, and is told when that is committed.
type tracedMove struct {
	trace   string
	name    string // of the span
	by      trace.SpanContext
	details []attribute.KeyValue
}

// trace notes the moves of items that are traced.
func (w *Work) trace() {
	if w.store.cfg.Tracer == nil {
		return
	}
	name := cmp.Or(w.settings.name, w.sql.Name)
	for _, c := range w.changes {
		if c.trace == "" {
			continue
		}
		if len(w.traced) == stream.MostTraced {
			return
		}
		w.traced = append(w.traced, tracedMove{c.trace, w.move.String() + " " + name, c.command.by, []attribute.KeyValue{
			attribute.String("messaging.destination.name", name), attribute.Int64("millrace.item", c.id),
			attribute.String("millrace.status", c.state.Status.String()), attribute.Int("millrace.attempt", int(c.state.Attempts)),
			attribute.Int("millrace.generation", int(c.state.Generation)), attribute.String("millrace.worker", c.state.Worker),
		}})
	}
}

// tellTraces has a span for each move, in the trace of its item, with a link to the request
// that has made it.
func (s *Store) tellTraces(ctx context.Context, begin time.Time, t *Tx) {
	for _, span := range t.adding {
		span.End()
	}
	for _, m := range t.traced {
		by := m.by
		if !by.IsValid() {
			by = trace.SpanContextFromContext(ctx)
		}
		options := []trace.SpanStartOption{trace.WithTimestamp(begin), trace.WithAttributes(m.details...)}
		if by.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: by}))
		}
		_, span := s.cfg.Tracer.Start(stream.WithTrace(context.Background(), m.trace), m.name, options...)
		span.End()
	}
}

// TraceAdded begins the span of items that are added to a queue, if the caller is traced, and
// returns what names it. It ends when the transaction is committed.
func (t *Tx) TraceAdded(ctx context.Context, queue string) string {
	if t.store.cfg.Tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	ctx, span := t.store.cfg.Tracer.Start(ctx, "add "+queue, trace.WithSpanKind(trace.SpanKindProducer))
	t.adding = append(t.adding, span)
	return stream.TraceOf(ctx)
}

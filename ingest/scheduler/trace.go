package scheduler

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/schemas/stream"
)

// trace begins the trace of a run, whose first span lasts from when it was due until it is decided, and returns what
// names it. The moves of its item are within it.
func (s *Scheduler) trace(j *due, r *run) string {
	if s.tracer == nil {
		return ""
	}
	ctx, span := s.tracer.Start(context.Background(), "run job", trace.WithNewRoot(), trace.WithTimestamp(r.due),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
			attribute.String("millrace.job", j.id.String()), attribute.String("millrace.run", r.id.String()),
			attribute.String("millrace.source", j.source.String()), attribute.Bool("millrace.forced", r.forced)))
	if !span.SpanContext().IsSampled() {
		return ""
	}
	r.span = span
	return stream.TraceOf(ctx)
}

// endTraces ends the spans of runs that are decided.
func endTraces(jobs []*due) {
	for _, j := range jobs {
		for _, r := range j.runs {
			if r.span != nil {
				r.span.End()
			}
		}
	}
}

// tellFollowed has a span for what each change of an item has made of its run, within the trace of the run.
func (s *Scheduler) tellFollowed(begin time.Time, runs []*followed) {
	if s.tracer == nil {
		return
	}
	told := 0
	for _, r := range runs {
		if r.trace == "" || r.status == r.was && !r.next {
			continue
		}
		if told++; told > stream.MostTraced {
			return
		}
		_, span := s.tracer.Start(stream.WithTrace(context.Background(), r.trace), "record "+r.status,
			trace.WithTimestamp(begin), trace.WithAttributes(
				attribute.String("millrace.job", r.job.String()), attribute.String("millrace.run", r.id.String()),
				attribute.Int64("millrace.item", r.item), attribute.Int("millrace.attempt", r.attempt+one(r.again || r.next))))
		span.End()
	}
}

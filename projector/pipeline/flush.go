package pipeline

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// Write stores every effect of a batch (invariants 4 to 8).
func (v *view) Write(ctx context.Context, b *batch) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return v.db.InsertEvents(ctx, b.Insert, b.rows) })
	g.Go(func() error { return v.db.InsertFunnel(ctx, b.Insert, b.funnel) })
	g.Go(func() error { return deadletter.Publish(ctx, v.p.js, b.letters, v.log) })
	g.Go(func() error { return v.publishConflicts(ctx, b.conflicts) })
	g.Go(v.keys.Sync)
	return g.Wait()
}

// Announce tells readers, metrics and the log of a batch. A view is right
// without it: a reader that misses a delta loads again.
func (v *view) Announce(ctx context.Context, b *batch, took time.Duration) {
	v.checkpoint.Know(contract.Known{At: b.To, Identities: b.known})
	traced := stream.TraceOf(ctx)
	for _, part := range b.parts {
		msg := &nats.Msg{Subject: stream.FunnelDeltas, Data: part}
		if traced != "" {
			msg.Header = nats.Header{stream.TraceParent: {traced}}
		}
		if err := v.p.nc.PublishMsg(msg); err != nil {
			v.log.Warn("delta not published", "to", b.To, "error", err)
		}
	}
	v.p.metrics.observe(v.group, b, v.stages.Names(), took.Seconds())
	v.report(ctx, b, took)
	v.p.behind.set(v.group.ID, b.backlog() && b.large())
	v.keep(b)
}

func (v *view) report(ctx context.Context, b *batch, took time.Duration) {
	v.log.DebugContext(ctx, "batch durable", "from", b.From, "to", b.To, "messages", b.messages, "events", b.rows.Rows(),
		"duplicates", b.duplicates, "rejected", len(b.letters), "conflicts", len(b.conflicts),
		"funnel_rows", b.funnel.Rows(), "took", took)
	v.reportLate(b)
	v.reportConflicts(b)
	for i, l := range b.letters {
		if i == 5 {
			v.log.Warn("event rejected", "more", len(b.letters)-i)
			break
		}
		v.log.Warn("event rejected", "seq", l.Seq, "subject", l.Subject, "field", l.Reason.Field,
			"reason", l.Reason.Rule)
	}
}

// lateEvery is how often late events are reported.
const lateEvery = 10 * time.Second

// reportLate warns of late events: at once, then of all since, because a source
// that lags would fill the log with one line a batch.
func (v *view) reportLate(b *batch) {
	v.late.merge(b.late)
	if v.late.events == 0 || time.Since(v.lateTold) < lateEvery {
		return
	}
	v.log.Warn("late event received", "stage", v.late.stage, "delay", v.late.delay.String(), "events", v.late.events)
	v.late, v.lateTold = lateness{}, time.Now()
}

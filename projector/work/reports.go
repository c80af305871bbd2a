package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/projector/pglease"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// reports applies what daemons report on the stream SHARDS, as moves of the items.
type reports struct {
	shards    *tracking.Store
	handout   *handout.Handout
	js        jetstream.JetStream
	metrics   *metrics
	log       *slog.Logger
	lookEvery time.Duration // between two looks at an item that is under way
	lease     *pglease.Lease
}

// readReports applies what daemons report over NATS.
func (t *session) readReports(ctx context.Context) error {
	return pglease.Fold(ctx, pglease.Config{Stream: stream.Shards, Consumer: "reports", BatchMessages: batchSize},
		pglease.Deps{NATS: t.nc, JS: t.js, Postgres: t.store.Pool(), Tracer: t.tracer, Log: t.log}, t.applyReports)
}

// applyReports applies reports, in as few transactions as it takes.
func (s *Service) applyReports(ctx context.Context, lease *pglease.Lease, b pglease.Batch) error {
	r := &reports{
		shards: s.shards, handout: s.handout, js: s.js, metrics: s.metrics, log: s.log, lookEvery: s.cfg.MendEvery,
		lease: lease,
	}
	list := make([]report, len(b.Messages))
	for i, m := range b.Messages {
		list[i] = parseReport(m)
	}
	for len(list) > 0 {
		n := run(list)
		if err := r.apply(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// apply applies a run of reports. A report that is refused goes into the DLQ
// stream, after those before it are applied.
func (r *reports) apply(ctx context.Context, list []report) error {
	refused := &refusal{at: -1}
	err := r.try(ctx, list)
	if errors.As(err, &refused) {
		if refused.at > 0 {
			if err := r.apply(ctx, list[:refused.at]); err != nil {
				return err
			}
		}
		if err := r.bury(ctx, list[refused.at], refused.why); err != nil {
			return err
		}
		if rest := list[refused.at+1:]; len(rest) > 0 {
			return r.apply(ctx, rest)
		}
		return nil
	}
	if err == nil {
		r.metrics.reports.WithLabelValues("applied").Add(float64(len(list)))
	}
	return err
}

// try applies a run in one transaction. It changes nothing when a report is refused.
func (r *reports) try(ctx context.Context, list []report) error {
	first := list[0]
	switch {
	case first.invalid != nil:
		return &refusal{0, first.invalid}
	case !first.single():
		return r.applyFile(ctx, first)
	}
	commands := make([]queue.Command, len(list))
	for i, one := range list {
		commands[i] = one.command
	}
	if first.move == item.Start {
		if err := r.withdraw(ctx, first.stage, commands[0]); err != nil {
			return err
		}
	}
	last := list[len(list)-1].Seq
	_, err := r.shards.Queues().ApplyAlso(ctx, queue.ID(first.stage), first.move, commands,
		func(results []queue.Result, also *pgx.Batch) error {
			for i, result := range results {
				if !result.Outcome.OK() {
					return &refusal{i, refusedBy(result, first)}
				}
			}
			r.lease.Move(also, last)
			return nil
		})
	return r.lease.Moved(err, last)
}

// withdraw takes the item of a start out of the queue. It refuses an item that a
// daemon has.
func (r *reports) withdraw(ctx context.Context, stage shard.Stage, command queue.Command) error {
	for end := time.Now().Add(requestWait); ; {
		now, err := r.shards.Queues().Look(ctx, queue.ID(stage), []queue.Command{command})
		if err != nil {
			return err
		}
		if now[0].Outcome == item.NotFound || now[0].Status != item.New {
			return nil // Apply says what of it
		}
		found, err := r.handout.Withdraw(ctx, stage.String(),
			ref{Item: now[0].ID, Queue: queue.ID(stage), Generation: now[0].Generation})
		if err != nil || found == handout.Free {
			return err
		}
		if found == handout.Held || time.Now().After(end) {
			return &refusal{
				0,
				&item.Invalid{
					Field: "status", Code: "taken",
					Rule: "is started: a daemon has the item from the queue",
				},
			}
		}
		// The item is out of the queue and not started. Either an earlier leader
		// took it out and was killed, and mending puts it back; or somebody is
		// about to start it.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(r.lookEvery):
		}
	}
}

// applyFile applies a report about a file. It changes nothing when it is
// applied again.
func (r *reports) applyFile(ctx context.Context, one report) error {
	var err error
	if one.move == item.Register {
		_, err = r.shards.Register(stream.WithTrace(ctx, one.Trace), []tracking.Registration{{Filename: one.command.Name, Shards: one.shards}})
	} else {
		_, err = r.shards.FinishIngest(ctx, one.command.Name, queue.Command{})
	}
	var refused *tracking.Refused
	if errors.Is(err, tracking.ErrNoFile) || errors.Is(err, tracking.ErrCancelled) || errors.As(err, &refused) {
		return &refusal{0, &item.Invalid{Field: "filename", Code: "refused", Rule: err.Error()}}
	}
	if err != nil {
		return err
	}
	return r.lease.Save(ctx, one.Seq)
}

// bury puts a report into the DLQ stream and passes it. A report that another
// process has applied meanwhile would be refused here too, and is no dead letter.
func (r *reports) bury(ctx context.Context, one report, why error) error {
	if err := r.lease.Renew(ctx); err != nil {
		return err
	}
	reason := item.Invalid{Code: "refused", Rule: why.Error()}
	var rule *item.Invalid
	if errors.As(why, &rule) {
		reason = *rule
	}
	err := deadletter.Publish(ctx, r.js, []deadletter.Letter{one.Letter(stream.Shards, reason)}, r.log)
	if err != nil {
		return err
	}
	r.metrics.reports.WithLabelValues("refused").Inc()
	return r.lease.Save(ctx, one.Seq)
}

package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/projector/deadletter"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/input"
	"github.com/millrace-io/millrace/projector/pglease"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// reports is the view of the stream SHARDS: what daemons report, as moves of the
// items. The position moves in the transaction that applies a report (package pglease).
type reports struct {
	shards    *tracking.Store
	handout   *handout.Handout
	js        jetstream.JetStream
	metrics   *metrics
	log       *slog.Logger
	lookEvery time.Duration // between two looks at an item that is under way
	lease     *pglease.Lease

	open []report
}

// readReports applies what daemons report over NATS.
func (t *session) readReports(ctx context.Context) error {
	lease, err := pglease.Open(ctx, t.store.Pool(), stream.Shards, nil)
	if err != nil {
		return err
	}
	log := t.log.With("stream", stream.Shards)
	f, err := fold.New(fold.Config{
		Rewind: true, BatchMessages: batchSize, MinInterval: reportInterval, MaxInterval: reportInterval,
	}, fold.Deps{
		Input: input.NewStream(input.Config{Stream: stream.Shards, Consumer: "reports"}, t.nc, t.js, log),
		Lease: lease, Log: log,
	}, t.newReports(lease))
	if err != nil {
		return err
	}
	return f.Run(ctx)
}

// reportInterval is the least time between two batches of reports. Each is a
// transaction or more, and daemons wait for them.
const reportInterval = time.Millisecond

func (s *Service) newReports(lease *pglease.Lease) *reports {
	return &reports{
		shards: s.shards, handout: s.handout, js: s.js, metrics: s.metrics, log: s.log, lookEvery: s.cfg.MendEvery,
		lease: lease,
	}
}

// Stored has nothing to add to the position.
func (r *reports) Stored(context.Context) (fold.Stored, error) { return fold.Stored{}, nil }

// Open returns the view itself, which keeps nothing of what it has applied.
func (r *reports) Open(context.Context, uint64) (fold.View[[]report], error) { return r, nil }

// Failing is never true: a transaction that fails ends the session.
func (r *reports) Failing() bool { return false }

// Take reads a report.
func (r *reports) Take(m input.Message) (full bool) {
	r.open = append(r.open, parseReport(m))
	return false
}

// Seal returns the reports of a batch.
func (r *reports) Seal(context.Context, fold.Cut) (batch []report, digest string, err error) {
	batch, r.open = r.open, nil
	return batch, "", nil
}

// Write applies reports, in as few transactions as it takes.
func (r *reports) Write(ctx context.Context, batch []report) error {
	for len(batch) > 0 {
		n := run(batch)
		if err := r.apply(ctx, batch[:n]); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// Announce has nobody to tell: the moves announce themselves.
func (r *reports) Announce([]report, time.Duration) {}

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
	commands := make([]tracking.Command, len(list))
	for i, one := range list {
		commands[i] = one.command
	}
	if first.move == shard.Start {
		if err := r.withdraw(ctx, first.stage, commands[0]); err != nil {
			return err
		}
	}
	last := list[len(list)-1].Seq
	_, err := r.shards.ApplyAlso(ctx, first.stage, first.move, commands,
		func(results []tracking.Result, also *pgx.Batch) error {
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
func (r *reports) withdraw(ctx context.Context, stage shard.Stage, command tracking.Command) error {
	for end := time.Now().Add(requestWait); ; {
		now, err := r.shards.Look(ctx, stage, []tracking.Command{command})
		if err != nil {
			return err
		}
		if now[0].Outcome == shard.NotFound || now[0].Status != shard.New {
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
				&shard.Invalid{
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
	if one.move == shard.Register {
		_, err = r.shards.Register(ctx, []tracking.Registration{{Filename: one.command.Filename, Shards: one.shards}})
	} else {
		_, err = r.shards.FinishIngest(ctx, one.command.Filename, tracking.Command{})
	}
	var refused *tracking.Refused
	if errors.Is(err, tracking.ErrNoFile) || errors.Is(err, tracking.ErrCancelled) || errors.As(err, &refused) {
		return &refusal{0, &shard.Invalid{Field: "filename", Code: "refused", Rule: err.Error()}}
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
	reason := shard.Invalid{Code: "refused", Rule: why.Error()}
	var rule *shard.Invalid
	if errors.As(why, &rule) {
		reason = *rule
	}
	err := deadletter.Publish(ctx, r.js, []deadletter.Letter{{
		Stream: stream.Shards, Subject: one.Subject, Seq: one.Seq, Time: time.Unix(0, one.Time), Data: one.Data,
		Reason: reason,
	}}, r.log)
	if err != nil {
		return err
	}
	r.metrics.reports.WithLabelValues("refused").Inc()
	return r.lease.Save(ctx, one.Seq)
}

package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/projector/deadletter"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// report is one message of the stream SHARDS, ready to be applied.
type report struct {
	seq     uint64
	msg     jetstream.Msg
	stage   shard.Stage
	move    shard.Move
	shards  []int64 // with Register
	command tracking.Command
	invalid error // it breaks a rule by itself
}

// readReports applies what daemons report over NATS.
func (t *term) readReports(ctx context.Context) error {
	return t.read(ctx, stream.Shards, &t.reports, t.applyAll)
}

func (t *term) applyAll(ctx context.Context, msgs []jetstream.Msg) error {
	reports := make([]report, len(msgs))
	for i, m := range msgs {
		var err error
		if reports[i], err = parseReport(m); err != nil {
			return err
		}
	}
	for len(reports) > 0 {
		n := run(reports)
		if err := t.applyReports(ctx, reports[:n]); err != nil {
			return err
		}
		reports = reports[n:]
	}
	return nil
}

// run is the number of reports at the start of a list that are one kind of
// move and about different items. A start goes alone: the queue has to let go
// of its item first.
func run(list []report) int {
	if list[0].move == shard.Start {
		return 1
	}
	seen := map[string]bool{}
	for i, r := range list {
		key := fmt.Sprint(r.command.Shard, "/", r.command.Filename)
		same := r.stage == list[0].stage && r.move == list[0].move && r.invalid == nil
		if i > 0 && (!same || seen[key] || !r.single() || list[0].invalid != nil) {
			return i
		}
		if r.single() {
			seen[key] = true
		}
	}
	return len(list)
}

// single tells whether it is about one item.
func (r *report) single() bool { return r.stage.HasQueue() && r.move != shard.Register }

// applyReports applies a run of reports. One that is refused is put into the
// DLQ stream, and those before it are applied without it.
func (t *term) applyReports(ctx context.Context, list []report) error {
	refused := &refusal{at: -1}
	err := t.tryReports(ctx, list)
	if errors.As(err, &refused) {
		if refused.at > 0 {
			if err := t.applyReports(ctx, list[:refused.at]); err != nil {
				return err
			}
		}
		if err := t.bury(ctx, list[refused.at], refused.why); err != nil {
			return err
		}
		if rest := list[refused.at+1:]; len(rest) > 0 {
			return t.applyReports(ctx, rest)
		}
		return nil
	}
	if err == nil {
		t.metrics.reports.WithLabelValues("applied").Add(float64(len(list)))
	}
	return err
}

// refusal is the error of a run in which a report is refused; nothing of it
// was applied.
type refusal struct {
	at  int
	why error
}

func (r *refusal) Error() string { return r.why.Error() }

func (t *term) tryReports(ctx context.Context, list []report) error {
	r := list[0]
	switch {
	case r.invalid != nil:
		return &refusal{0, r.invalid}
	case !r.single():
		return t.applyFile(ctx, r)
	}
	commands := make([]tracking.Command, len(list))
	for i, r := range list {
		commands[i] = r.command
	}
	if r.move == shard.Start {
		if err := t.withdraw(ctx, r.stage, commands[0]); err != nil {
			return err
		}
	}
	last := list[len(list)-1].seq
	_, err := t.store.ApplyAlso(ctx, r.stage, r.move, commands, func(results []tracking.Result, also *pgx.Batch) error {
		for i, result := range results {
			if !result.Outcome.OK() {
				return &refusal{i, refusedBy(result, r)}
			}
		}
		also.Queue(sqlPosition, stream.Shards, int64(last), t.reports.stored)
		return nil
	})
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		return err
	}
	return t.reports.saved(err, stream.Shards, last)
}

// withdraw takes the item of a start out of the queue. One that a daemon has
// is refused.
func (t *term) withdraw(ctx context.Context, stage shard.Stage, command tracking.Command) error {
	for end := time.Now().Add(requestWait); ; {
		now, err := t.store.Look(ctx, stage, []tracking.Command{command})
		if err != nil {
			return err
		}
		if now[0].Outcome == shard.NotFound || now[0].Status != shard.New {
			return nil // Apply says what of it
		}
		found, err := t.queue.withdraw(ctx, ref{now[0].ID, stage, now[0].Generation})
		if err != nil || found == free {
			return err
		}
		if found == held || time.Now().After(end) {
			return &refusal{0, &shard.Invalid{Field: "status", Code: "taken", Rule: "is started: a daemon has the item from the queue"}}
		}
		// Out of the queue and not started: by this, before it was killed, or
		// by somebody who is about to say so. Mending knows soon.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(t.cfg.Compare):
		}
	}
}

// applyFile applies a report about a file. It changes nothing when it is
// applied again.
func (t *term) applyFile(ctx context.Context, r report) error {
	var err error
	if r.move == shard.Register {
		list := make([]int32, len(r.shards))
		for i, n := range r.shards {
			list[i] = int32(n)
		}
		_, err = t.store.Register(ctx, []tracking.Registration{{Filename: r.command.Filename, Shards: list}})
	} else {
		_, err = t.store.FinishIngest(ctx, r.command.Filename, tracking.Command{})
	}
	var refused *tracking.Refused
	if errors.Is(err, tracking.ErrNoFile) || errors.Is(err, tracking.ErrCancelled) || errors.As(err, &refused) {
		return &refusal{0, &shard.Invalid{Field: "filename", Code: "refused", Rule: err.Error()}}
	}
	if err != nil {
		return err
	}
	return t.reports.save(ctx, t.store.Pool(), stream.Shards, r.seq)
}

func refusedBy(result tracking.Result, r report) error {
	if result.Outcome == shard.NotFound {
		return &shard.Invalid{Field: "filename", Code: "not_found", Rule: "is no registered file with this shard"}
	}
	return &shard.Invalid{
		Field: "status", Code: result.Outcome.String(),
		Rule: fmt.Sprintf("is %s at %s: %s is not allowed", result.Status, r.stage, r.move),
	}
}

// bury puts a report into the DLQ stream and passes it. One that another
// process has applied meanwhile may well be refused here, and is none.
func (t *term) bury(ctx context.Context, r report, why error) error {
	if err := t.reports.check(ctx, t.store.Pool(), stream.Shards); err != nil {
		return err
	}
	meta, err := r.msg.Metadata()
	if err != nil {
		return err
	}
	reason := &event.Invalid{Code: "refused", Rule: why.Error()}
	var rule *shard.Invalid
	if errors.As(why, &rule) {
		reason = &event.Invalid{Field: rule.Field, Code: rule.Code, Rule: rule.Rule}
	}
	err = deadletter.Publish(ctx, t.js, []deadletter.Letter{{
		Stream: stream.Shards, Subject: r.msg.Subject(), Seq: r.seq, Time: meta.Timestamp, Data: r.msg.Data(), Reason: reason,
	}}, t.log)
	if err != nil {
		return err
	}
	t.metrics.reports.WithLabelValues("refused").Inc()
	return t.reports.save(ctx, t.store.Pool(), stream.Shards, r.seq)
}

// parseReport reads a message. A report that breaks a rule is no error.
func parseReport(m jetstream.Msg) (report, error) {
	meta, err := m.Metadata()
	if err != nil {
		return report{}, fmt.Errorf("read a report: %w", err)
	}
	r := report{seq: meta.Sequence.Stream, msg: m}
	r.invalid = r.parse(m.Subject(), m.Data())
	return r, nil
}

func (r *report) parse(subject string, data []byte) error {
	said, err := stream.ParseShardReport(subject, data)
	if err != nil {
		return &shard.Invalid{Code: "json", Rule: err.Error()}
	}
	r.command = tracking.Command{Filename: said.Filename, Worker: said.Worker, Error: shard.CutError(said.Error)}
	if err := shard.CheckFilename(said.Filename); err != nil {
		return err
	}
	if err := tracking.CheckWorker(said.Worker); err != nil {
		return err
	}
	var known bool
	if r.stage, r.move, known = stageMove(said.Stage, said.Move); !known {
		return &shard.Invalid{Field: "subject", Code: "unknown", Rule: "must be shards.register, shards.event-ingest.done, or shards.<stage>.<start, done, fail or retry>"}
	}
	if r.move == shard.Register {
		r.shards = said.Shards
		return shard.CheckShards(said.Shards)
	}
	if r.stage == shard.EventIngest {
		return nil
	}
	if said.Shard == nil {
		return &shard.Invalid{Field: "shard", Code: "missing", Rule: "is required"}
	}
	r.command.Shard = int32(*said.Shard)
	return shard.CheckShard(*said.Shard)
}

func stageMove(stage, move string) (shard.Stage, shard.Move, bool) {
	if stage == "" {
		return shard.EventIngest, shard.Register, move == shard.Register.String()
	}
	s, known := shard.ParseStage(stage)
	if !known {
		return 0, 0, false
	}
	for _, m := range []shard.Move{shard.Start, shard.Complete, shard.Fail, shard.Retry} {
		if m.String() == move {
			return s, m, s.HasQueue() || m == shard.Complete
		}
	}
	return 0, 0, false
}

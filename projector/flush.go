package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/deadletter"
	"github.com/millrace-io/millrace/schemas/stream"
)

// quiet is how long the flusher waits for another batch before it says that
// none is under way.
const quiet = 200 * time.Millisecond

// flush makes one batch after the other durable until there are no more.
func (t *term) flush(ctx context.Context) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case t.idle <- struct{}{}:
		default:
		}
		select {
		case b, ok := <-t.sealed:
			if !ok {
				return t.rest(ctx)
			}
			if err := t.apply(ctx, b); err != nil {
				return err
			}
			t.free <- b
			timer.Reset(quiet)
		case <-timer.C:
			if err := t.rest(ctx); err != nil {
				return err
			}
			timer.Reset(t.restless())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rest says that no batch is under way, and that this projector is alive. One
// that can't write, or can't read the rows that it needs for its next batch,
// keeps silent, so that another one may take over.
func (t *term) rest(ctx context.Context) error {
	if t.keys.Full() || t.db.Failing() {
		return nil
	}
	if r := t.decisions.Record(); r.To > t.durable.Load() { // a batch to recover has not been folded yet
		return t.renew(ctx, t.began)
	}
	return t.sign(t.decisions.Done(ctx, t.durable.Load(), t.caughtUp()))
}

// restless is how often an idle projector says that it is alive. One that does
// not read the whole stream says so more often, because its position stands
// still while that of the others moves.
func (t *term) restless() time.Duration {
	if t.Number == 0 {
		return t.cfg.Lease / 3
	}
	return min(t.cfg.Lease/3, time.Second)
}

// caughtUp tells up to where nothing is left to fold, or returns 0.
func (t *term) caughtUp() uint64 {
	if t.Number == 0 || t.Upto > 0 {
		return 0
	}
	last, upTo := t.src.CaughtUp()
	if last > t.durable.Load() {
		return 0 // it is known a second later
	}
	return upTo
}

// longest is for how many leases a projector says that it is alive in the
// middle of something. One that takes longer may be stuck.
const longest = 20

// alive does something that takes time, and says meanwhile that this projector
// is alive, so that no other one takes over and does the same just as slowly.
func (t *term) alive(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin, done := time.Now(), make(chan error, 1)
	go func() { done <- do(ctx) }()
	tick := time.NewTicker(t.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if lost := context.Cause(ctx); errors.Is(lost, checkpoint.ErrLost) {
				return lost
			}
			return err
		case <-tick.C:
			if ctx.Err() != nil {
				continue
			}
			if err := t.renew(ctx, begin); err != nil {
				cancel(err)
			}
		}
	}
}

// renew says that this projector is alive, unless what it does since some time
// fails or takes too long: then another one may have more luck.
func (t *term) renew(ctx context.Context, since time.Time) error {
	if t.keys.Full() || t.db.Failing() || time.Since(since) > longest*t.cfg.Lease {
		return nil
	}
	return t.sign(t.decisions.Renew(ctx))
}

// apply gives a batch every effect (invariants 3 to 8).
func (t *term) apply(ctx context.Context, b *batch) error {
	start := time.Now()
	if err := t.sign(t.decisions.Decide(ctx, b.From, b.To)); err != nil {
		return err
	}
	err := t.alive(ctx, func(ctx context.Context) error {
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return t.db.InsertEvents(gctx, b.Batch, b.rows) })
		g.Go(func() error { return t.db.InsertFunnel(gctx, b.Batch, b.funnel) })
		g.Go(func() error { return deadletter.Publish(gctx, t.js, b.letters, t.log) })
		g.Go(t.keys.Sync)
		return g.Wait()
	})
	if err != nil {
		return fmt.Errorf("batch (%d, %d]: %w", b.From, b.To, err)
	}
	took := time.Since(start)
	t.took.Store(int64(took))
	t.durable.Store(b.To)
	t.announce(b)
	t.metrics.observe(t.Group, b, t.cfg.Stages.Names(), took.Seconds())
	t.report(b, took)
	return nil
}

// announce tells readers. It is not needed for a view to be right: a reader
// that misses a delta loads again.
func (t *term) announce(b *batch) {
	deltas := b.deltas()
	for i := range deltas {
		if err := t.nc.Publish(stream.FunnelDeltas, deltas[i].AppendBinary(nil)); err != nil {
			t.log.Warn("delta not published", "to", b.To, "error", err)
		}
	}
}

func (t *term) report(b *batch, took time.Duration) {
	t.log.Debug("batch durable", "from", b.From, "to", b.To, "messages", b.messages, "events", b.rows.Rows(),
		"duplicates", b.duplicates, "rejected", len(b.letters), "funnel_rows", b.funnel.Rows(), "took", took)
	t.reportLate(b)
	for i, l := range b.letters {
		if i == 5 {
			t.log.Warn("event rejected", "more", len(b.letters)-i)
			break
		}
		t.log.Warn("event rejected", "seq", l.Seq, "subject", l.Subject, "field", l.Reason.Field, "reason", l.Reason.Rule)
	}
}

// lateEvery is how often late events are reported.
const lateEvery = 10 * time.Second

// reportLate warns of late events: at once, then of all since, for a source
// that lags would fill the log with one line a batch.
func (t *term) reportLate(b *batch) {
	t.late.merge(b.late)
	if t.late.events == 0 || time.Since(t.lateTold) < lateEvery {
		return
	}
	t.log.Warn("late event received", "stage", t.late.stage, "delay", t.late.delay.String(), "events", t.late.events)
	t.late, t.lateTold = lateness{}, time.Now()
}

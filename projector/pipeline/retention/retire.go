package retention

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnequal means that the summaries do not hold as many events as the range. That
// happens when another process has committed and removed the range meanwhile.
var errUnequal = errors.New("the summaries do not hold as many events as the table")

// retire completes the plan of a month, or makes one and carries it out.
func (k *Keeper) retire(ctx context.Context, m month, durable uint64) error {
	committed, err := k.store.retired(ctx, 0)
	if err != nil {
		return err
	}
	p, err := k.decide(ctx, m, committed[m], durable)
	if err != nil || p.Done {
		return err
	}
	if committed[m] < p.Upto {
		if err := k.carryOut(ctx, m, p); err != nil {
			return err
		}
	}
	p.Done = true
	if _, err := k.writePlan(ctx, m, p); err != nil {
		return err
	}
	return k.stopAfter("done")
}

// decide returns the month's plan, a new one if the last is done and events
// have come since (invariant 2).
func (k *Keeper) decide(ctx context.Context, m month, committed, durable uint64) (plan, error) {
	p, err := k.readPlan(ctx, m)
	if err != nil || !p.Done {
		return p, err
	}
	after := max(p.Upto, committed) // the bucket may have been lost
	n, err := k.store.remaining(ctx, m, after, durable)
	if err != nil || n == 0 {
		return p, err
	}
	p, err = k.writePlan(ctx, m, plan{After: after, Upto: durable, revision: p.revision})
	if err != nil {
		return p, err
	}
	return p, k.stopAfter("plan")
}

// carryOut sums up a range and commits it (invariants 3 to 5).
func (k *Keeper) carryOut(ctx context.Context, m month, p plan) error {
	start := time.Now()
	events, err := k.store.remaining(ctx, m, p.After, p.Upto)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"daily", func() error { return k.store.sumDays(ctx, m, p, events) }},
		{"monthly", func() error { return k.store.sumMonth(ctx, m, p) }},
		{"identities", func() error { return k.store.keepIdentities(ctx, m, p) }},
		{"verify", func() error { return k.verify(ctx, m, p, events) }},
		{"commit", func() error { return k.store.commit(ctx, m, p, events) }},
	} {
		if err := step.do(); err != nil {
			return err
		}
		if err := k.stopAfter(step.name); err != nil {
			return err
		}
	}
	k.metrics.retired.Add(float64(events))
	k.log.Info("events retired", "month", m, "events", events, "after", p.After, "upto", p.Upto,
		"took", time.Since(start))
	return nil
}

// verify counts what the summaries hold of a range of so many events.
func (k *Keeper) verify(ctx context.Context, m month, p plan, events uint64) error {
	got, err := k.store.summed(ctx, m, p)
	if err != nil {
		return err
	}
	if want := (summed{events, events, events}); got != want {
		return fmt.Errorf("%w: %d by day, %d by month, %d identities, %d in the table", errUnequal, got.daily,
			got.monthly, got.identities, events)
	}
	return nil
}

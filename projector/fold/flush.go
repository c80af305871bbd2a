package fold

import (
	"context"
	"fmt"
	"time"
)

// quiet is how long the flusher waits for another batch before it says that none
// is under way.
const quiet = 200 * time.Millisecond

// flush makes one batch after the other durable until there are no more.
func (f *Fold[B]) flush(ctx context.Context) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case f.idle <- struct{}{}:
		default:
		}
		select {
		case s, ok := <-f.sealed:
			if !ok {
				return f.rest(ctx)
			}
			if err := f.write(ctx, s); err != nil {
				return err
			}
			timer.Reset(quiet)
		case <-timer.C:
			if err := f.rest(ctx); err != nil {
				return err
			}
			timer.Reset(f.restEvery())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// write decides a batch and stores it (invariants 3 and 7).
func (f *Fold[B]) write(ctx context.Context, s sealed[B]) (err error) {
	start := time.Now()
	ctx, span := f.batchSpan(ctx, s)
	defer func() {
		s.traces.end(err)
		span.End()
	}()
	if err := f.keeper.sign(f.deps.Lease.Decide(ctx, s.cut.From, s.cut.To, s.digest)); err != nil {
		return err
	}
	span.AddEvent("decided")
	err = f.keeper.during(ctx, func(ctx context.Context) error { return f.folder.view.Write(ctx, s.batch) })
	if err != nil {
		return fmt.Errorf("batch (%d, %d]: %w", s.cut.From, s.cut.To, err)
	}
	span.AddEvent("stored")
	took := time.Since(start)
	f.took.Store(int64(min(took, f.before)))
	f.before = took
	f.durable.Store(s.cut.To)
	f.folder.view.Announce(ctx, s.batch, took)
	return nil
}

// rest says that no batch is under way.
func (f *Fold[B]) rest(ctx context.Context) error {
	return f.keeper.rest(ctx, f.durable.Load(), f.caughtUp())
}

// restEvery is how often an idle session renews its lease. One that reads a part
// of the input renews it more often: its position does not move while the input
// grows, and readers want to know how far it has looked.
func (f *Fold[B]) restEvery() time.Duration {
	if !f.partial {
		return f.cfg.Lease / 3
	}
	return min(f.cfg.Lease/3, time.Second)
}

// caughtUp tells up to where nothing is left to fold, or returns 0.
func (f *Fold[B]) caughtUp() uint64 {
	if !f.partial {
		return 0
	}
	last, upTo := (*f.reader.Load()).CaughtUp()
	if last > f.durable.Load() {
		return 0 // it is known a second later
	}
	return upTo
}

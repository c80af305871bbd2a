// Package retry repeats what fails until it succeeds.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff is how long to wait between attempts: First after the first one, then
// twice as long each time, up to Most. Each wait is up to a quarter longer or
// shorter, at random: callers that fail together do not come back together.
type Backoff struct{ First, Most time.Duration }

// Do calls attempt, at least once, until it succeeds, returns an error of Stop, or
// ctx ends. If ctx ends, Do returns its cause together with the last error. failed,
// unless it is nil, is told of each failure that another attempt follows, and how
// long Do waits for that. Any number of goroutines may use a Backoff at once: each
// call of Do begins with the shortest wait.
func (b Backoff) Do(ctx context.Context, attempt func() error, failed func(err error, wait time.Duration)) error {
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = attempt()
		return struct{}{}, last
	},
		backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: b.First, MaxInterval: b.Most, Multiplier: 2, RandomizationFactor: 0.25,
		}),
		backoff.WithMaxElapsedTime(0), // only ctx limits the attempts
		backoff.WithNotify(failed))
	var stop *backoff.PermanentError
	switch {
	case err == nil || errors.As(last, &stop):
		return err
	case errors.Is(last, err):
		return last
	}
	return fmt.Errorf("%w; the last attempt: %w", err, last)
}

// Stop marks an error that no further attempt would mend. Do returns it unmarked.
func Stop(err error) error { return backoff.Permanent(err) }

// Every calls do until ctx ends: at once, and then at each interval. failed is told of errors, but for those of a call
// that the end of ctx has cut short. Every returns nil.
func Every(ctx context.Context, interval time.Duration, do func(context.Context) error, failed func(error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

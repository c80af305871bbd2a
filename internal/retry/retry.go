// Package retry repeats what fails until it succeeds. It notes what fails in the meantime where the context says, so
// that a process can tell which of its parts do not work ([Faults]).
package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff is how long to wait between attempts: First after the first one, then
// twice as long each time, up to Most. Each wait is up to a quarter longer or
// shorter, at random: callers that fail together do not come back together.
type Backoff struct{ First, Most time.Duration }

// Do calls attempt, at least once, until it succeeds, returns an error of Stop, or
// ctx ends. If ctx ends, Do returns its cause together with the last error. failed,
// unless it is nil, is told of the first failure that another attempt follows, of one
// ten minutes after that and so on, and how long Do waits then. Any number of goroutines may use a
// Backoff at once: each call of Do begins with the shortest wait.
func (b Backoff) Do(ctx context.Context, attempt func() error, failed func(err error, wait time.Duration)) error {
	loop := NewLoop(ctx)
	defer loop.End()
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = attempt()
		return struct{}{}, last
	},
		backoff.WithBackOff(b.waits()),
		backoff.WithMaxElapsedTime(0), // only ctx limits the attempts
		backoff.WithNotify(func(err error, wait time.Duration) {
			if loop.Failed(err) && failed != nil {
				failed(err, wait)
			}
		}))
	var stop *backoff.PermanentError
	switch {
	case err == nil || errors.As(last, &stop):
		return err
	case errors.Is(last, err):
		return last
	}
	return fmt.Errorf("%w; the last attempt: %w", err, last)
}

func (b Backoff) waits() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: b.First, MaxInterval: b.Most, Multiplier: 2, RandomizationFactor: 0.25,
	}
}

// Keep runs a session until ctx ends, and another one after it has failed. It returns nil when ctx has ended, or a
// session has without an error. After a session that has lasted for a minute the wait is the shortest again. A session
// calls [Well] when it has done something. failed is told as by Do.
func (b Backoff) Keep(
	ctx context.Context, session func(context.Context) error, failed func(err error, wait time.Duration),
) error {
	loop, waits := NewLoop(ctx), b.waits()
	defer loop.End()
	waits.Reset()
	for {
		began := time.Now()
		err := session(loop.Session(ctx))
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > settled {
			waits.Reset()
		}
		wait := waits.NextBackOff()
		if loop.SessionFailed(err, wait) {
			failed(err, wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Warn returns a function that logs errors as warnings, for [Every] and [Poll].
func Warn(log *slog.Logger, message string, args ...any) func(error) {
	return func(err error) { log.With(args...).Warn(message, "error", err) }
}

// WarnWait returns a function that logs errors as warnings, with the time until the next attempt, for [Backoff.Do] and
// [Backoff.Keep].
func WarnWait(log *slog.Logger, message string, args ...any) func(error, time.Duration) {
	return func(err error, wait time.Duration) { log.With(args...).Warn(message, "error", err, "retry_in", wait) }
}

// Stop marks an error that no further attempt would mend. Do returns it unmarked.
func Stop(err error) error { return backoff.Permanent(err) }

// Every calls do until ctx ends: at once, and then at each interval. failed is told of the first error in a row, and of
// one ten minutes after that and so on, but not of that of a call that the end of ctx has cut short. Every returns nil.
func Every(ctx context.Context, interval time.Duration, do func(context.Context) error, failed func(error)) error {
	step := func(ctx context.Context) (more bool, err error) { return false, do(ctx) }
	return Poll{Every: interval, Failed: failed}.Run(ctx, step)
}

// Poll calls a step at an interval, when it is woken, and again at once while a step finds that there is more to do.
type Poll struct {
	// Every is the interval.
	Every time.Duration
	// Wake begins the next step at once. nil: nothing does.
	Wake <-chan struct{}
	// Failed is called with errors, as by [Every].
	Failed func(error)
	// Well is called when a step succeeds after others have failed. nil: nobody is told.
	Well func()
}

// Run calls step until ctx ends, and returns nil. The next step follows at once where one returns true and no error.
func (p Poll) Run(ctx context.Context, step func(context.Context) (more bool, err error)) error {
	loop := NewLoop(ctx)
	defer loop.End()
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for {
		more, err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && loop.Well() && p.Well != nil:
			p.Well()
		case err != nil && loop.Failed(err):
			p.Failed(err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.Wake:
		case <-tick.C:
		}
	}
}

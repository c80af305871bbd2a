package retry_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/retry"
)

var second = retry.Backoff{First: time.Second, Most: time.Second}

// noting returns what notes faults, and a context that has it.
func noting(t *testing.T) (*retry.Faults, context.Context, context.CancelFunc) {
	t.Helper()
	faults := &retry.Faults{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return faults, faults.Note(ctx), cancel
}

// none holds that there is no fault.
func none(t *testing.T, faults *retry.Faults, when string) {
	t.Helper()
	if f := faults.Longest(); f.Err != nil {
		t.Errorf("%s: %+v", when, f)
	}
}

// TestFaultOfDo: what Do tries again is a fault since its first failure, and none after it has succeeded, ctx has
// ended, or no further attempt would help.
func TestFaultOfDo(t *testing.T) {
	for name, end := range map[string]func(cancel func()) error{
		"success": func(func()) error { return nil },
		"stop":    func(func()) error { return retry.Stop(errFailed) },
		"cancel":  func(cancel func()) error { cancel(); return errFailed },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faults, ctx, cancel := noting(t)
				start := time.Now()
				var ending atomic.Bool
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = second.Do(ctx, func() error {
						if ending.Load() {
							return end(cancel)
						}
						return errFailed
					}, nil)
				}()
				synctest.Wait()
				if f := faults.Longest(); !errors.Is(f.Err, errFailed) || f.Lasted() != 0 {
					t.Errorf("after a failure: %+v", f)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if f := faults.Longest(); !f.Since.Equal(start) || f.Lasted() < time.Hour-2*time.Second {
					t.Errorf("after an hour: %+v", f)
				}
				ending.Store(true)
				<-done
				none(t, faults, "in the end")
			})
		})
	}
}

// TestFaultOfEvery: a success ends the fault, and so does the end of ctx.
func TestFaultOfEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults, ctx, cancel := noting(t)
		var succeeds atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = retry.Every(ctx, time.Hour, func(context.Context) error {
				if succeeds.Load() {
					return nil
				}
				return errFailed
			}, func(error) {})
		}()
		time.Sleep(90 * time.Minute)
		if f := faults.Longest(); f.Lasted() != time.Hour {
			t.Errorf("after two failures: %+v", f)
		}
		succeeds.Store(true)
		time.Sleep(time.Hour)
		none(t, faults, "after a success")
		succeeds.Store(false)
		time.Sleep(time.Hour)
		if f := faults.Longest(); f.Err == nil || f.Lasted() != 0 {
			t.Errorf("after another failure: %+v", f)
		}
		cancel()
		<-done
		none(t, faults, "in the end")
	})
}

// TestFaultOfKeep: a session ends the fault of those before it when it says so, or has lasted for a minute. One that
// fails sooner does not.
func TestFaultOfKeep(t *testing.T) {
	for name, session := range map[string]func(ctx context.Context) (ended bool){
		"at once": func(context.Context) bool { return false },
		"short":   func(context.Context) bool { time.Sleep(50 * time.Second); return false },
		"long":    func(context.Context) bool { time.Sleep(62 * time.Second); return true },
		"well":    func(ctx context.Context) bool { retry.Well(ctx); return true },
		"outside": func(ctx context.Context) bool { retry.NewLoop(ctx).Well(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faults, ctx, cancel := noting(t)
				sessions := 0
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = second.Keep(ctx, func(ctx context.Context) error {
						if sessions++; sessions <= 3 {
							return errFailed
						}
						ended := session(ctx)
						if f := faults.Longest(); ended != (f.Err == nil) {
							t.Errorf("in session %d: %+v", sessions, f)
						}
						if sessions == 6 {
							cancel()
						}
						return errFailed
					}, func(error, time.Duration) {})
				}()
				<-done
				none(t, faults, "in the end")
			})
		})
	}
}

// TestLoops: loops of one part are kept apart, and the fault that has lasted longest is the one to tell of.
func TestLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults, ctx, _ := noting(t)
		one, other := retry.NewLoop(ctx), retry.NewLoop(ctx)
		errOther := errors.New("the other")
		one.Failed(errFailed)
		time.Sleep(time.Second)
		other.Failed(errOther)
		time.Sleep(time.Second)
		one.Failed(errFailed)
		other.Failed(errOther)
		if f := faults.Longest(); f.Lasted() != 2*time.Second || !errors.Is(f.Err, errFailed) {
			t.Errorf("of two: %+v", f)
		}
		if !one.Well() || one.Well() {
			t.Error("only the first success after a failure is news")
		}
		if f := faults.Longest(); f.Lasted() != time.Second || !errors.Is(f.Err, errOther) {
			t.Errorf("of the other: %+v", f)
		}
		other.End()
		none(t, faults, "in the end")
	})
}

// TestManyLoops: any number of goroutines note faults at once; for the race detector.
func TestManyLoops(t *testing.T) {
	faults, ctx, _ := noting(t)
	shared := retry.NewLoop(ctx)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				l := retry.NewLoop(shared.Session(ctx))
				l.Failed(errFailed)
				shared.SessionFailed(errFailed, time.Hour)
				if faults.Longest().Err == nil {
					t.Error("its own fault is not noted")
				}
				l.Well()
				l.End()
			}
		})
	}
	all.Wait()
	shared.End()
	none(t, faults, "in the end")
}

// TestUnnoted: without a place for faults, loops work all the same.
func TestUnnoted(t *testing.T) {
	l := retry.NewLoop(t.Context())
	if !l.Failed(errFailed) || l.Failed(errFailed) || !l.Well() || !l.Failed(errFailed) {
		t.Error("of failures in a row the first is told")
	}
	retry.Well(t.Context())
}

package retry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/retry"
)

var errFailed = errors.New("failed")

// TestWaits holds the waits to their bounds: they double, and end at the longest.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		last := time.Now()
		err := retry.Backoff{First: time.Second, Most: 5 * time.Second}.Do(t.Context(), func() error {
			waits, last = append(waits, time.Since(last)), time.Now()
			if len(waits) < 6 {
				return errFailed
			}
			return nil
		}, nil)
		if err != nil || len(waits) != 6 || waits[0] != 0 {
			t.Fatalf("waits %v, %v", waits, err)
		}
		for i, about := range []time.Duration{1, 2, 4, 5, 5} {
			about *= time.Second
			if wait := waits[i+1]; wait < about*3/4 || wait > about*5/4+1 {
				t.Errorf("wait %d is %s, not about %s", i, wait, about)
			}
		}
	})
}

// TestTold: of failures in a row the first is told, and then one in ten minutes.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, told, start := 0, 0, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
		defer cancel()
		err := retry.Backoff{First: time.Second, Most: time.Second}.Do(ctx, func() error {
			attempts++
			return errFailed
		}, func(err error, wait time.Duration) {
			if !errors.Is(err, errFailed) || wait <= 0 {
				t.Errorf("told of %v, to wait %s", err, wait)
			}
			if since := time.Since(start); since < time.Duration(told)*10*time.Minute {
				t.Errorf("told %d times after %s", told+1, since)
			}
			told++
		})
		if told != 3 || attempts < 1000 || !errors.Is(err, errFailed) {
			t.Errorf("told %d times of %d attempts, %v", told, attempts, err)
		}
	})
}

func TestStop(t *testing.T) {
	attempts := 0
	err := retry.Backoff{First: time.Hour, Most: time.Hour}.Do(t.Context(), func() error {
		attempts++
		return retry.Stop(errFailed)
	}, func(err error, _ time.Duration) { t.Errorf("%v is to be tried again", err) })
	if err != errFailed || attempts != 1 { //nolint:errorlint // the mark is gone
		t.Errorf("%d attempts, %v", attempts, err)
	}
	if err := retry.Stop(nil); err != nil {
		t.Errorf("success became %v", err)
	}
}

// TestEnd: when the context ends, the error says why, and what failed before.
func TestEnd(t *testing.T) {
	backoff := retry.Backoff{First: time.Hour, Most: time.Hour}
	for name, end := range map[string]func(cancel func()) (during, waiting func()){
		"during an attempt": func(cancel func()) (during, waiting func()) { return cancel, func() {} },
		"during a wait":     func(cancel func()) (during, waiting func()) { return func() {}, cancel },
	} {
		t.Run(name, func(t *testing.T) {
			errEnd := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			during, waiting := end(func() { cancel(errEnd) })
			err := backoff.Do(ctx, func() error { during(); return errFailed },
				func(error, time.Duration) { waiting() })
			if !errors.Is(err, errEnd) || !errors.Is(err, errFailed) {
				t.Errorf("%v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := backoff.Do(ctx, func() error { return ctx.Err() }, nil); err != context.Canceled { //nolint:errorlint // and not twice
		t.Errorf("%v", err)
	}
	if err := backoff.Do(ctx, func() error { return nil }, nil); err != nil {
		t.Errorf("an attempt that succeeds: %v", err)
	}
}

// TestEvery: what is done at each interval goes on after an error, and is not told of the end.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin, told := time.Now(), 0
		var at []time.Duration
		err := retry.Every(ctx, time.Minute, func(context.Context) error {
			if at = append(at, time.Since(begin)); len(at) == 3 {
				cancel()
			}
			return errFailed
		}, func(error) { told++ })
		if err != nil || told != 1 || !slices.Equal(at, []time.Duration{0, time.Minute, 2 * time.Minute}) {
			t.Errorf("called at %v, told %d times, %v", at, told, err)
		}
	})
}

// TestPoll: a step follows at once where there is more to do or somebody wakes it, but not after an error, and what
// succeeds again is told of.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{}, 1)
		begin, failed, well := time.Now(), 0, 0
		var at []time.Duration
		err := retry.Poll{
			Every: time.Minute, Wake: wake, Failed: func(error) { failed++ }, Well: func() { well++ },
		}.Run(ctx, func(context.Context) (more bool, err error) {
			switch at = append(at, time.Since(begin)); len(at) {
			case 1:
				return true, nil
			case 2:
				wake <- struct{}{}
			case 3:
				return true, errFailed
			case 5:
				cancel()
			}
			return false, nil
		})
		if err != nil || failed != 1 || well != 1 ||
			!slices.Equal(at, []time.Duration{0, 0, 0, time.Minute, 2 * time.Minute}) {
			t.Errorf("called at %v, failed %d times, well %d times, %v", at, failed, well, err)
		}
	})
}

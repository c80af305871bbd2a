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
		attempts, start := 0, time.Now()
		err := retry.Backoff{First: time.Second, Most: 5 * time.Second}.Do(t.Context(), func() error {
			if attempts++; attempts < 6 {
				return errFailed
			}
			return nil
		}, func(err error, wait time.Duration) {
			if !errors.Is(err, errFailed) {
				t.Errorf("told of %v", err)
			}
			waits = append(waits, wait)
		})
		if err != nil || attempts != 6 || len(waits) != 5 {
			t.Fatalf("%d attempts, waits %v, %v", attempts, waits, err)
		}
		var waited time.Duration
		for i, about := range []time.Duration{1, 2, 4, 5, 5} {
			about *= time.Second
			if waited += waits[i]; waits[i] < about*3/4 || waits[i] > about*5/4+1 {
				t.Errorf("wait %d is %s, not about %s", i, waits[i], about)
			}
		}
		if took := time.Since(start); took != waited {
			t.Errorf("it took %s for waits of %s", took, waited)
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
		if err != nil || told != 2 || !slices.Equal(at, []time.Duration{0, time.Minute, 2 * time.Minute}) {
			t.Errorf("called at %v, told %d times, %v", at, told, err)
		}
	})
}

package scrape

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestHangs: who asks while a server hangs gets the last value at once, until that is too
// old, and then none. The server is asked once at a time.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var hangs atomic.Bool
		v := &Value[int]{
			Limit: time.Minute, Fresh: time.Second, Keep: 10 * time.Second,
			Ask: func(ctx context.Context) (int, error) {
				n := int(asked.Add(1))
				if hangs.Load() {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				return n, nil
			},
		}
		get := func(want int, known bool, within time.Duration) {
			t.Helper()
			began := time.Now()
			got, ok := v.Get()
			if took := time.Since(began); got != want || ok != known || took > within {
				t.Errorf("%d, %t after %s, want %d, %t within %s", got, ok, took, want, known, within)
			}
		}
		get(1, true, 0)
		get(1, true, 0) // fresh
		time.Sleep(2 * time.Second)
		get(2, true, 0)
		time.Sleep(2 * time.Second)
		hangs.Store(true)
		get(2, true, 100*time.Millisecond)
		get(2, true, 0)
		time.Sleep(10 * time.Second)
		get(0, false, 0)
		if n := asked.Load(); n != 3 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(time.Minute)
		hangs.Store(false)
		get(4, true, 0)
	})
}

// TestFails: an answer that fails leaves the last one, and one that was taken by a clock
// that has been set back is not shown.
func TestFails(t *testing.T) {
	now, fails := time.Unix(1e9, 0), false
	v := &Value[int]{
		Limit: time.Minute, Fresh: time.Second, Keep: time.Minute, Patience: time.Minute,
		Now: func() time.Time { return now },
		Ask: func(context.Context) (int, error) {
			if fails {
				return 0, errors.New("no")
			}
			return 7, nil
		},
	}
	if got, ok := v.Get(); got != 7 || !ok {
		t.Error(got, ok)
	}
	now, fails = now.Add(30*time.Second), true
	if got, ok := v.Get(); got != 7 || !ok {
		t.Error(got, ok)
	}
	now = now.Add(-time.Hour)
	if got, ok := v.Get(); ok {
		t.Error(got)
	}
}

package item

import (
	"testing"
	"time"
)

// TestClassWait: an error of a throttled host waits longer than another, each attempt twice as long, up to a bound.
func TestClassWait(t *testing.T) {
	for name, want := range map[string][3]time.Duration{
		"":            {2 * time.Second, 4 * time.Second, 2 * time.Minute},
		"network":     {2 * time.Second, 4 * time.Second, 2 * time.Minute},
		"503":         {5 * time.Second, 10 * time.Second, 5 * time.Minute},
		"429":         {10 * time.Second, 20 * time.Second, 10 * time.Minute},
		"Throttled":   {10 * time.Second, 20 * time.Second, 10 * time.Minute},
		"no such one": {2 * time.Second, 4 * time.Second, 2 * time.Minute},
	} {
		for i, attempts := range []int32{1, 2, 1 << 30} {
			if got := ClassWait(name, attempts); got != want[i] {
				t.Errorf("%q after %d attempts: %s, want %s", name, attempts, got, want[i])
			}
		}
	}
	if ClassOf("permanent") != ClassInvalid || ClassOf("invalid") != ClassInvalid {
		t.Error("an error that is for good would be tried again")
	}
}

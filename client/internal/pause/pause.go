// Package pause waits between attempts.
package pause

import (
	"context"
	"time"
)

// First is the pause after the first attempt. Each is twice the one before, up to
// Long.
const (
	First = 20 * time.Millisecond
	Long  = 2 * time.Second
)

// For waits, and returns false when ctx ends before.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package diskroom

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCallsBesideGivingUp: a database that is given up may be closed behind all calls
// that have begun, and none begins after that.
func TestCallsBesideGivingUp(t *testing.T) {
	for range 500 {
		ctx, end := context.WithCancel(t.Context())
		d, _ := New(ctx, vfs.Default, t.TempDir(), Logger{})
		d.set(&d.full, true)
		var closed atomic.Bool
		go d.Do(func() error {
			if closed.Load() {
				t.Error("a call began after the database was closed")
			}
			return nil
		})
		end()
		<-d.gone.Done()
		d.Wait()
		closed.Store(true)
	}
}

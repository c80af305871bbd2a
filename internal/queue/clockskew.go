package queue

import "time"

// ServerClock compares a server's clock with this process's monotonic clock. One
// goroutine at a time may use it. The zero value has no reading yet.
type ServerClock struct {
	remote, local time.Time // at the last reading
}

// SetBack takes a reading of the server's clock. It returns true when that clock
// has fallen behind the local one by more than a tolerance since the reading
// before. An answer that was under way for so long looks the same, so whatever the
// caller does then must be right at any time.
func (c *ServerClock) SetBack(remote time.Time, tolerance time.Duration) bool {
	before := *c
	*c = ServerClock{remote: remote, local: time.Now()}
	return !before.local.IsZero() && remote.Sub(before.remote) < c.local.Sub(before.local)-tolerance
}

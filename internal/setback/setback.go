// Package setback notices that the clock of a server was set back.
package setback

import "time"

// Clock is what a server's clock said when it was last looked at. The zero value
// has not been looked at. It is for one goroutine at a time.
type Clock struct{ said, heard time.Time }

// SetBack notes what the clock says, and tells whether it has fallen behind by
// more than some time since it was last looked at. An answer that took that long
// looks the same, so what is done then must be right at any time.
func (c *Clock) SetBack(now time.Time, by time.Duration) bool {
	was := *c
	*c = Clock{said: now, heard: time.Now()}
	return !was.heard.IsZero() && now.Sub(was.said) < c.heard.Sub(was.heard)-by
}

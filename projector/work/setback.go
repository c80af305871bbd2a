package work

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/setback"
	"github.com/millrace-io/millrace/schemas/stream"
)

// The server waits for a daemon's answer until a time of day. Where its clock
// has been set back it waits for as much longer, be it days, and the item of a
// daemon that is gone comes to nobody. So when that has happened, or may have
// before this process took office, each message that the server had by then is
// said to be in progress, once, when it is found with a daemon: that has the
// server wait anew, by the clock as it is now.

// brokerClock is the server's clock, and what may have been handed out while it
// was ahead. The zero value is that of a new office.
type brokerClock struct {
	clock setback.Clock
	upto  uint64              // messages up to here may have been
	told  map[uint64]struct{} // … and are waited for anew; nil before the first look
}

// look notes a comparison. It returns the messages that are to be waited for
// anew, and whether the clock was set back since the last one.
func (c *brokerClock) look(d differences, patience time.Duration) (anew []uint64, back bool) {
	if back = c.clock.SetBack(d.at, patience); back || c.told == nil {
		c.upto, c.told = d.last, map[uint64]struct{}{}
	}
	for seq := range d.held {
		if _, told := c.told[seq]; seq <= c.upto && !told {
			c.told[seq] = struct{}{}
			anew = append(anew, seq)
		}
	}
	return anew, back
}

// heedClock has the server wait anew after a comparison, if it is due. A message
// that it fails for is told of by the next office.
func (t *term) heedClock(d differences) error {
	anew, back := t.broker.look(d, t.cfg.Streams.AckWait)
	if back {
		t.log.Warn("the clock of NATS was set back: daemons have their time anew", "messages", len(anew))
	}
	for _, seq := range anew {
		// Of a reply's subject only the sequence counts here.
		subject := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.0.0", stream.Work, d.held[seq], seq)
		if err := t.js.Conn().Publish(subject, []byte("+WPI")); err != nil {
			return fmt.Errorf("have message %d of %s waited for: %w", seq, stream.Work, err)
		}
	}
	return nil
}

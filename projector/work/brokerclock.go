package work

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// NATS waits for a daemon's answer until a time of day. When its clock is set back,
// it waits for as much longer, perhaps for days, and the item of a daemon that is
// gone goes to nobody. A new leader cannot know whether that happened before it
// began. So the leader tells NATS once of each message that was on the stream by
// then, as soon as it finds it with a daemon, that it is in progress: NATS then
// waits anew, by the clock as it is now.

// brokerClock is the clock of NATS, and which messages may have been handed out
// while it was ahead. The zero value is that of a new leader.
type brokerClock struct {
	clock queue.ServerClock
	upto  uint64              // messages up to this sequence may have been handed out by the old clock
	told  map[uint64]struct{} // those that NATS waits for anew; nil before the first look
}

// look takes the result of a comparison. It returns the messages that NATS has to
// wait for anew, and whether its clock was set back since the comparison before.
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

// heedClock has NATS wait anew for what a comparison shows. After an error the next
// leader does it.
func (t *session) heedClock(d differences) error {
	anew, back := t.broker.look(d, t.cfg.Streams.AckWait)
	if back {
		t.log.Warn("the clock of NATS was set back: daemons have their time anew", "messages", len(anew))
	}
	for _, seq := range anew {
		if err := t.js.Conn().Publish(stream.KeepSubject(t.name(d.held[seq]), seq), stream.Progress); err != nil {
			return fmt.Errorf("have message %d of %s waited for: %w", seq, stream.Work, err)
		}
	}
	return nil
}

package work

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// The server waits for a daemon's answer until a time of day. Where its clock
// has been set back it waits for as much longer, be it days, and the item of a
// daemon that is gone comes to nobody. So when that has happened, or may have
// before this process took office, each such message is said to be in progress,
// which has the server wait anew, by the clock as it is now.

// waitAnew has the server wait anew for answers about messages.
func (t *term) waitAnew(held map[uint64]shard.Stage) error {
	for seq, stage := range held {
		// Of a reply's subject only the sequence counts here.
		subject := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.0.0", stream.Work, stage, seq)
		if err := t.js.Conn().Publish(subject, []byte("+WPI")); err != nil {
			return fmt.Errorf("have message %d of %s waited for: %w", seq, stream.Work, err)
		}
	}
	return nil
}

// heedClock does so after a comparison, if it is due.
func (t *term) heedClock(ctx context.Context, d differences) error {
	back := t.broker.SetBack(d.at, t.cfg.Streams.AckWait)
	if back {
		t.log.Warn("the clock of NATS was set back: daemons have their time anew", "messages", len(d.held))
	}
	if !back && time.Since(t.began) > officeWait || ctx.Err() != nil {
		return nil
	}
	return t.waitAnew(d.held)
}

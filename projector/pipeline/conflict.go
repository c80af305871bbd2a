package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// conflict is a message whose event has the identity of another one, of another
// stage or service.
type conflict struct {
	seq, first uint64 // of the message, and of that of the other event
	received   int64  // when the stream received it, in Unix nanoseconds
	subject    string
}

// reason is why the message becomes a dead letter.
func (c *conflict) reason() item.Invalid {
	return item.Invalid{
		Field: "idempotency_key", Code: event.KeyConflict,
		Rule: fmt.Sprintf("%s: message %d of %s has it; to replay this letter gives its event a key of its own",
			event.ConflictRule, c.first, stream.Events),
	}
}

const (
	// conflictsAtOnce bounds the messages that are read again for letters, and
	// so their memory: a batch may hold nothing but conflicts.
	conflictsAtOnce = 64
	conflictReaders = 16
)

// publishConflicts makes dead letters of conflicts (invariant 8). The batch has
// not kept their messages, which are read from the stream again.
func (v *view) publishConflicts(ctx context.Context, conflicts []conflict) error {
	for len(conflicts) > 0 {
		n := min(len(conflicts), conflictsAtOnce)
		letters := make([]deadletter.Letter, n)
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(conflictReaders)
		for i := range letters {
			g.Go(func() (err error) {
				letters[i], err = v.letterOf(gctx, &conflicts[i])
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if err := deadletter.Publish(ctx, v.p.js, letters, v.log); err != nil {
			return err
		}
		conflicts = conflicts[n:]
	}
	return nil
}

// letterOf reads the message of a conflict for as long as it takes. Of one that
// was removed from the stream meanwhile the letter says no more than that.
func (v *view) letterOf(ctx context.Context, c *conflict) (deadletter.Letter, error) {
	letter := deadletter.Letter{
		Stream: stream.Events, Subject: c.subject, Seq: c.seq, Time: time.Unix(0, c.received),
		Reason: c.reason(),
	}
	err := backoff.Do(ctx, func() (err error) {
		var m *jetstream.RawStreamMsg
		m, letter.Removed, err = v.message(ctx, c.seq)
		switch {
		case letter.Removed:
			return nil
		case err == nil:
			letter.Data = m.Data
		}
		return err
	}, func(err error, wait time.Duration) {
		v.log.Warn("the message of a dead letter is not read, trying again", "seq", c.seq, "error", err,
			"retry_in", wait)
	})
	if err != nil {
		return letter, fmt.Errorf("read message %d of %s: %w", c.seq, stream.Events, err)
	}
	return letter, nil
}

// message reads a message of the stream, and tells when the stream no longer has it.
func (v *view) message(ctx context.Context, seq uint64) (m *jetstream.RawStreamMsg, gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	s, err := v.p.js.Stream(ctx, stream.Events)
	if err != nil {
		return nil, false, err
	}
	m, err = stream.Get(ctx, v.p.js, s, seq)
	return m, errors.Is(err, jetstream.ErrMsgNotFound), err
}

// reportConflicts warns of conflicts, of many by the first alone.
func (v *view) reportConflicts(b *batch) {
	if len(b.conflicts) == 0 {
		return
	}
	c := &b.conflicts[0]
	v.log.Warn("the key of an event is another event's", "seq", c.seq, "subject", c.subject, "first_seq", c.first,
		"events", len(b.conflicts))
}

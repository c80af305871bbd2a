package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/internal/retry"
)

// chunk is a batch's worth of messages on their way to their outcomes. One
// goroutine works on it; it writes only the outcomes of its own messages.
type chunk struct {
	p        *Publisher
	msgs     []Message
	pending  []int // indexes of messages without an outcome
	outcomes []Outcome
	// alone is set when batches do not work: each message goes on its own.
	alone bool
}

// smallBatch is the number of messages from which one atomic batch is quicker than
// single publishes side by side: the server needs some 4 ms to stage a batch on
// disk, and 0.2 ms to sync a single message.
const smallBatch = 20

// backoff is how long to wait before publishing again.
var backoff = retry.Backoff{First: 20 * time.Millisecond, Most: 2 * time.Second}

// publish works until every message has its outcome. It never panics on what
// a server answers.
func (c *chunk) publish(ctx context.Context) {
	c.dropTooLarge()
	err := backoff.Do(ctx, func() error {
		err := c.attempt(ctx)
		if fateOf(err) == fateFailed {
			return retry.Stop(err)
		}
		return err // what is stored twice counts once
	}, func(err error, wait time.Duration) {
		c.p.cfg.Log.Log(ctx, c.p.retryLevel(), "publishing again", "messages", len(c.pending),
			"wait", wait, "error", err)
	})
	if err != nil && fateOf(err) != fateFailed {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	c.fail(err)
}

// attempt sends what is pending once, in the way that fits it.
func (c *chunk) attempt(ctx context.Context) error {
	switch {
	case len(c.pending) == 0:
		return nil
	case len(c.pending) == 1:
		return c.one(ctx)
	case c.alone || len(c.pending) < smallBatch || c.p.crowded():
		return c.singly(ctx)
	}
	err := c.batch(ctx)
	if noPlace(err) {
		until := time.Now().Add(crowdedFor)
		c.p.batchesFrom.Store(&until)
		return c.singly(ctx)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrTooLarge) {
		c.alone = true // finds the message that is to blame
		return c.singly(ctx)
	}
	return err
}

// singly publishes each pending message on its own, all at once. Messages whose
// fate the answers decide get their outcomes; the error is that of the first other
// message.
func (c *chunk) singly(ctx context.Context) error {
	ctx, end := c.p.attempt(ctx)
	defer end()
	answers := make([]answer, len(c.pending))
	for k, i := range c.pending {
		answers[k].future, answers[k].err = c.p.js.PublishMsgAsync(c.msgs[i].msg(),
			jetstream.WithStallWait(c.p.cfg.Attempt), jetstream.WithRetryAttempts(0))
	}
	var failure error
	kept := c.pending[:0]
	for k, i := range c.pending {
		ack, err := answers[k].await(ctx)
		switch fateOf(err) {
		case fateDone:
			c.p.cfg.Acked(ack.Stream, ack.Sequence)
			c.outcomes[i] = Outcome{Status: Accepted}
		case fateFailed:
			c.outcomes[i] = Outcome{Err: err}
		case fateUnknown, fateRetry:
			kept = append(kept, i)
			if failure == nil {
				failure = err
			}
		}
	}
	c.pending = kept
	return failure
}

// answer is the server's answer to a message, which may be still to come, or why
// the message could not be sent.
type answer struct {
	future jetstream.PubAckFuture
	err    error
}

func (a answer) await(ctx context.Context) (*jetstream.PubAck, error) {
	if a.err != nil {
		return nil, classify(a.err)
	}
	select {
	case ack := <-a.future.Ok():
		return ack, nil
	case err := <-a.future.Err():
		return nil, classify(err)
	case <-ctx.Done():
		return nil, why(ctx, ctx.Err())
	}
}

// one publishes the only message left.
func (c *chunk) one(ctx context.Context) error {
	ctx, end := c.p.attempt(ctx)
	defer end()
	i := c.pending[0]
	ack, err := c.p.js.PublishMsg(ctx, c.msgs[i].msg(), jetstream.WithRetryAttempts(0))
	if err != nil {
		return classify(why(ctx, err))
	}
	c.p.cfg.Acked(ack.Stream, ack.Sequence)
	c.pending = nil
	c.outcomes[i] = Outcome{Status: Accepted}
	return nil
}

// batch publishes all that is pending as one atomic batch.
func (c *chunk) batch(ctx context.Context) error {
	ctx, end := c.p.attempt(ctx)
	defer end()
	msgs := make([]*nats.Msg, len(c.pending))
	for k, i := range c.pending {
		msgs[k] = c.msgs[i].msg()
	}
	// The server answers to the last message, for the whole batch.
	ack, err := jetstreamext.PublishMsgBatch(ctx, c.p.js, msgs, jetstreamext.BatchFlowControl{})
	if err != nil {
		return classify(why(ctx, err))
	}
	c.p.cfg.Acked(ack.Stream, ack.Sequence)
	for _, i := range c.pending {
		c.outcomes[i] = Outcome{Status: Accepted}
	}
	c.pending = nil
	return nil
}

// noPlace tells whether the server had no place for a batch, since others have all that
// there are, or has lost one of its messages. It says that the batch is incomplete in
// either case, as it answers nothing but the last message.
func noPlace(err error) bool {
	switch code(err) {
	case jetstreamext.JSErrCodeBatchPublishIncomplete, jetstreamext.JSErrCodeAtomicPublishTooManyInflight:
		return true
	}
	return false
}

// crowdedFor is how long a publisher publishes without batches after the server had no
// place for one.
const crowdedFor = 5 * time.Second

// crowded tells whether the server had no place for a batch a moment ago.
func (p *Publisher) crowded() bool {
	from := p.batchesFrom.Load()
	return from != nil && time.Now().Before(*from)
}

func (c *chunk) dropTooLarge() {
	limit := int(c.p.nc.MaxPayload())
	if limit == 0 { // not connected yet
		return
	}
	kept := c.pending[:0]
	for _, i := range c.pending {
		m := &c.msgs[i]
		if m.trace != "" && m.size()-len(m.Subject) > limit { // the event goes without
			m.trace = ""
		}
		if n := m.size() - len(m.Subject); n > limit {
			c.outcomes[i].Err = fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, n, limit)
			continue
		}
		kept = append(kept, i)
	}
	c.pending = kept
}

// fail gives every message that has no outcome yet an error as its outcome.
func (c *chunk) fail(err error) {
	for _, i := range c.pending {
		c.outcomes[i] = Outcome{Err: err}
	}
	c.pending = nil
}

// attempt returns the context of one attempt, which ends early when the
// connection is lost: no answer will come on it then.
func (p *Publisher) attempt(ctx context.Context) (_ context.Context, end func()) {
	ctx, lose := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Attempt)
	lost := p.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		<-lost // or closed by end
		lose(nats.ErrDisconnected)
	}()
	return ctx, func() {
		p.nc.RemoveStatusListener(lost)
		cancel()
	}
}

// why returns nats.ErrDisconnected in place of err if a lost connection has ended
// the attempt.
func why(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), nats.ErrDisconnected) {
		return nats.ErrDisconnected
	}
	return err
}

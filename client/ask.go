package client

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ask finds out which pending messages the stream has, gives those their
// outcome, and leaves the rest pending. The package comment says how.
func (c *chunk) ask(ctx context.Context) error {
	before := len(c.pending)
	if err := c.each(ctx, c.question); err != nil {
		return err
	}
	c.p.repeats.note(len(c.pending) < before)
	// Without knownNew, an attempt that asks first would ask for ever.
	c.knownNew = true
	return nil
}

// noRollup is a value of the rollup header that no server takes.
const noRollup = "question"

func (c *chunk) question(i int) *nats.Msg {
	m := c.msgs[i].msg()
	m.Data = nil
	m.Header[jetstream.MsgRollup] = []string{noRollup}
	return m
}

// singly publishes each pending message on its own, all at once.
func (c *chunk) singly(ctx context.Context) error {
	return c.each(ctx, func(i int) *nats.Msg { return c.msgs[i].msg() })
}

// each sends a message for every pending one, all at once, and settles those
// whose fate the answers decide. What fails on the question's own condition
// stays pending, and so does what may succeed later; the error is then that of
// the first such message.
func (c *chunk) each(ctx context.Context, message func(i int) *nats.Msg) error {
	ctx, end := c.p.attempt(ctx)
	defer end()
	answers := make([]answer, len(c.pending))
	for k, i := range c.pending {
		answers[k].future, answers[k].err = c.p.js.PublishMsgAsync(message(i), jetstream.WithStallWait(c.p.cfg.Attempt), jetstream.WithRetryAttempts(0))
	}
	var failure error
	kept := c.pending[:0]
	for k, i := range c.pending {
		ack, err := answers[k].await(ctx)
		switch fateOf(err) {
		case fateDone:
			c.acknowledge(i, ack)
			continue
		case fateFailed:
			c.outcomes[i] = Outcome{Err: err}
			continue
		case fateUnknown, fateRetry:
			kept = append(kept, i)
			if failure == nil {
				failure = err
			}
		case fateAbsent:
			kept = append(kept, i)
		}
	}
	c.pending = kept
	return failure
}

// answer is what the server is to say of a message that was sent, or why it
// could not be sent.
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

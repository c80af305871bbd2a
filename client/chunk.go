package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// chunk is a batch's worth of messages on their way to their outcomes. One
// goroutine works on it; it writes only the outcomes of its own messages.
type chunk struct {
	p        *Publisher
	msgs     []Message
	pending  []int // indexes of messages without an outcome
	outcomes []Outcome
	// unsure is set when an attempt may have stored messages unseen. What is
	// then found on the stream beyond floor, the highest sequence that was
	// known before, was stored by that attempt and is no duplicate.
	unsure bool
	floor  uint64
	// knownNew says that the pending messages have just been asked after.
	knownNew bool
	// alone is set when batches do not work: each message goes on its own.
	alone   bool
	refused int // times that the server found the batch incomplete
	baffled int // times that it found a duplicate which ask did not
}

// smallBatch is the number of messages from which an atomic batch is quicker
// than as many publishes side by side: it takes the server some 4 ms to stage
// a batch on disk, and 0.2 ms to sync a single message.
const smallBatch = 20

const (
	firstWait = 20 * time.Millisecond
	longWait  = 2 * time.Second
)

// publish works until every message has its outcome. It never panics on what
// a server answers.
func (c *chunk) publish(ctx context.Context) {
	c.dropTooLarge()
	c.floor = c.p.lastSeq.Load()
	wait := firstWait
	for len(c.pending) > 0 {
		err := c.attempt(ctx)
		switch fateOf(err) {
		case fateDone:
			continue
		case fateFailed:
			if len(c.pending) > 1 && (errors.Is(err, ErrRefused) || errors.Is(err, ErrTooLarge)) && !c.alone {
				c.alone = true // finds the message that is to blame
				continue
			}
			c.fail(err)
			return
		case fateUnknown:
			c.unsure, c.knownNew = true, false
		case fateRetry, fateAbsent:
		}
		if ctx.Err() != nil {
			c.fail(unknown(ctx, err))
			return
		}
		c.p.cfg.Log.Log(ctx, c.p.retryLevel(), "publishing again", "messages", len(c.pending), "wait", wait, "error", err)
		if !sleep(ctx, wait/2+rand.N(wait/2)) {
			c.fail(unknown(ctx, err))
			return
		}
		wait = min(2*wait, longWait)
	}
}

// attempt sends what is pending once, in the way that fits it.
func (c *chunk) attempt(ctx context.Context) error {
	if len(c.pending) == 1 {
		return c.one(ctx)
	}
	if c.alone || len(c.pending) < smallBatch {
		return c.singly(ctx)
	}
	if !c.knownNew && (c.unsure || c.p.repeats.likely()) {
		return c.ask(ctx)
	}
	asked := c.knownNew
	c.knownNew = false
	err := c.batch(ctx)
	if err == nil && !asked {
		c.p.repeats.note(false)
	}
	if code(err) == jetstreamext.JSErrCodeBatchPublishDuplicateMsgID {
		return c.refusedForDuplicate(ctx, err)
	}
	return err
}

// refusedForDuplicate asks which messages the stream has. Should it have none
// time after time, such as with ids that differ in their spaces alone, the
// messages go one by one.
func (c *chunk) refusedForDuplicate(ctx context.Context, refusal error) error {
	before := len(c.pending)
	if err := c.ask(ctx); err != nil || len(c.pending) < before {
		return err
	}
	if c.baffled++; c.baffled < 3 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRefused, refusal)
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
	c.pending = nil
	c.acknowledge(i, ack)
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
	// The answer to the last message tells of the whole batch.
	ack, err := jetstreamext.PublishMsgBatch(ctx, c.p.js, msgs, jetstreamext.BatchFlowControl{})
	if err != nil {
		return c.classifyBatch(why(ctx, err))
	}
	for _, i := range c.pending {
		c.outcomes[i] = Outcome{Status: Accepted}
	}
	c.p.noteSeq(ack.Sequence)
	c.pending = nil
	return nil
}

// classifyBatch gives up on batches after the third that the server found
// incomplete: one of its messages does not reach the stream.
func (c *chunk) classifyBatch(err error) error {
	if code(err) == jetstreamext.JSErrCodeBatchPublishIncomplete {
		if c.refused++; c.refused >= 3 {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return err
	}
	return classify(err)
}

func (c *chunk) acknowledge(i int, ack *jetstream.PubAck) {
	status := Accepted
	if ack.Duplicate && !(c.unsure && ack.Sequence > c.floor) {
		status = Duplicate
	}
	c.outcomes[i] = Outcome{Status: status}
	c.p.noteSeq(ack.Sequence)
}

func (c *chunk) dropTooLarge() {
	limit := int(c.p.nc.MaxPayload())
	if limit == 0 { // not connected yet
		return
	}
	kept := c.pending[:0]
	for _, i := range c.pending {
		if n := c.msgs[i].size() - len(c.msgs[i].Subject); n > limit {
			c.outcomes[i].Err = fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, n, limit)
			continue
		}
		kept = append(kept, i)
	}
	c.pending = kept
}

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

// why gives a lost connection as an attempt's error where that ended it.
func why(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), nats.ErrDisconnected) {
		return nats.ErrDisconnected
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

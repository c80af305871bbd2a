package publish

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Batcher gathers messages that many callers publish one by one into atomic
// batches: with a stream that syncs each write to disk, a thousand messages
// then cost one sync and not a thousand. A message that finds nothing under
// way goes at once and alone; what comes meanwhile makes the next batch.
//
// It needs no closing: a goroutine runs only while messages are under way.
type Batcher struct {
	p       *Publisher
	timeout time.Duration
	mu      sync.Mutex
	queue   []waiter
	bytes   int // of the queue
	running bool
}

type waiter struct {
	ctx    context.Context
	msg    Message
	answer chan Outcome // buffered, so that a caller who left does not block
}

// maxQueue bounds what waits while the server does not answer, in bytes.
const maxQueue = 64 << 20

// NewBatcher returns a batcher that gives up on messages after timeout.
func NewBatcher(p *Publisher, timeout time.Duration) *Batcher {
	return &Batcher{p: p, timeout: timeout}
}

// Publish publishes a message and returns what became of it. When ctx ends
// first, the message may still be stored, and its data be read.
func (b *Batcher) Publish(ctx context.Context, m Message) (o Outcome) {
	if traced(ctx) {
		var span trace.Span
		ctx, span = begin(ctx, "publish "+m.Subject)
		defer func() { end(span, o.Err) }()
		m.trace = stream.TraceOf(ctx)
	}
	if b.p.cfg.AcceptRepeats {
		return b.publish(ctx, m)
	}
	msgs, outcomes, left := []Message{m}, make([]Outcome, 1), []int{0}
	for len(left) > 0 {
		c := b.p.recent.claim(msgs, left, outcomes)
		if len(c.mine) > 0 {
			outcomes[0] = b.publish(ctx, m)
			b.p.recent.release(msgs, c.mine, outcomes)
		}
		left = c.await(ctx, outcomes)
	}
	return outcomes[0]
}

// publish adds a message to the next batch.
func (b *Batcher) publish(ctx context.Context, m Message) Outcome {
	w := waiter{ctx, m, make(chan Outcome, 1)}
	if !b.add(w) {
		return Outcome{Err: fmt.Errorf("publish to %s: %w", m.Subject, ErrBusy)}
	}
	select {
	case o := <-w.answer:
		return o
	case <-ctx.Done():
		return Outcome{Err: fmt.Errorf("publish to %s: %w", m.Subject, unknown(ctx))}
	}
}

func (b *Batcher) add(w waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+w.msg.size() > maxQueue {
		return false
	}
	b.bytes += w.msg.size()
	b.queue = append(b.queue, w)
	if !b.running {
		b.running = true
		go b.run()
	}
	return true
}

// run publishes until the queue is empty.
func (b *Batcher) run() {
	for {
		b.mu.Lock()
		batch := b.queue
		b.queue, b.bytes = nil, 0
		if len(batch) == 0 {
			b.running = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.flush(batch)
	}
}

func (b *Batcher) flush(batch []waiter) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	// Callers who have left were told that the fate is unknown. They may have sent
	// their messages elsewhere since: sending them now helps nobody.
	batch = slices.DeleteFunc(batch, func(w waiter) bool { return w.ctx.Err() != nil })
	msgs := make([]Message, len(batch))
	for i, w := range batch {
		msgs[i] = w.msg
	}
	outcomes := make([]Outcome, len(msgs))
	b.p.send(ctx, msgs, b.notKnown(ctx, msgs, outcomes), outcomes)
	for i, w := range batch {
		w.answer <- outcomes[i]
	}
}

// notKnown returns the places of messages whose events nobody knows, and gives the
// others their outcomes.
func (b *Batcher) notKnown(ctx context.Context, msgs []Message, outcomes []Outcome) []int {
	all := make([]int, len(msgs))
	for i := range all {
		all[i] = i
	}
	if b.p.cfg.AcceptRepeats {
		return all
	}
	return b.p.ask(ctx, msgs, all, outcomes)
}

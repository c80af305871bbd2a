package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// settle finds out which of the messages that were begun are on the stream, removes
// them from the outbox, and returns the others.
func (p *Publisher) settle(ctx context.Context, begun []entry) (rest []entry, err error) {
	from := *begun[0].after
	for _, e := range begun {
		from = min(from, *e.after)
	}
	stored, err := p.idsAfter(ctx, uint64(from))
	if err != nil {
		return nil, err
	}
	var done []entry
	for _, e := range begun {
		if stored[e.ID] {
			done = append(done, e)
		} else {
			rest = append(rest, e)
		}
	}
	p.log.Info("messages that were being published when their publisher ended", "stored", len(done), "to_publish",
		len(rest))
	return rest, p.remove(ctx, done)
}

// scanWait bounds the reading of a stream's end.
const scanWait = time.Minute

// idsAfter returns the ids of the messages behind a place of the stream. Of a
// stream that was made anew, and so ends before that place, it returns all.
func (p *Publisher) idsAfter(ctx context.Context, seq uint64) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, scanWait)
	defer cancel()
	last, err := p.lastSeq(ctx)
	if err != nil {
		return nil, err
	}
	if last < seq {
		seq = 0
	}
	ids := map[string]bool{}
	if last == seq {
		return ids, nil
	}
	c, err := p.js.CreateConsumer(ctx, p.outbox.stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: time.Minute, MemoryStorage: true,
	})
	if err != nil {
		return nil, fmt.Errorf("read the end of %s: %w", p.outbox.stream, err)
	}
	for left := c.CachedInfo().NumPending; left > 0; {
		batch, err := c.Fetch(int(min(left, blockSize)), jetstream.FetchMaxWait(requestWait))
		if err != nil {
			return nil, fmt.Errorf("read the end of %s: %w", p.outbox.stream, err)
		}
		before := left
		for m := range batch.Messages() {
			ids[m.Headers().Get(jetstream.MsgIDHeader)] = true
			left--
		}
		if err := batch.Error(); err != nil {
			return nil, fmt.Errorf("read the end of %s: %w", p.outbox.stream, err)
		}
		if left == before {
			return nil, fmt.Errorf("read the end of %s: %d messages do not come", p.outbox.stream, left)
		}
	}
	return ids, p.js.DeleteConsumer(ctx, p.outbox.stream, c.CachedInfo().Name)
}

package handout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Handout takes items off the work stream. It is safe for concurrent use.
type Handout struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	store   *queue.Store
	streams stream.WorkConfig

	mu        sync.Mutex
	consumers map[string]jetstream.Consumer // by queue
}

// New returns a handout. The connection is the caller's.
func New(nc *nats.Conn, store *queue.Store, streams stream.WorkConfig) (*Handout, error) {
	if nc == nil || store == nil {
		return nil, errors.New("handout: NATS and the store are needed")
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(requestWait))
	if err != nil {
		return nil, fmt.Errorf("handout: %w", err)
	}
	return &Handout{nc: nc, js: js, store: store, streams: streams, consumers: map[string]jetstream.Consumer{}}, nil
}

// requestWait bounds one request to a server: when a connection is lost, the answer
// never comes.
const requestWait = 3 * time.Second

// relayWait is how long to wait for items that are ready in Postgres and not yet on
// the stream. Those that go before others are taken without a message.
const relayWait = 300 * time.Millisecond

// Take starts up to limit items of a queue for a worker, the highest priority
// first and the oldest of it, and returns them. Nobody else gets them until they
// are given back or the lease ends.
func (h *Handout) Take(
	ctx context.Context, name, worker string, limit int, lease time.Duration,
) ([]queue.Result, error) {
	what := fmt.Sprintf("take %d items of %s", limit, name)
	of, err := h.store.Lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for end := time.Now().Add(relayWait); ; {
		taken, again, err := h.once(ctx, of.ID, name, worker, limit, lease, max(0, time.Until(end)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if len(taken) > 0 || !again || time.Now().After(end) {
			return taken, nil
		}
	}
}

// once takes items. It wants to be called again when it has met items that others were
// faster to take.
func (h *Handout) once(
	ctx context.Context, q queue.ID, name, worker string, limit int, lease, wait time.Duration,
) (taken []queue.Result, again bool, err error) {
	head, err := h.store.Head(ctx, q, limit)
	if err != nil || head.Paused {
		return nil, false, err
	}
	if head.Awaited && wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(absentWait):
		}
		return nil, true, ctx.Err()
	}
	commands := make([]queue.Command, 0, limit)
	for _, e := range head.Passing {
		commands = append(commands, queue.Command{ID: e.Item, Generation: e.Generation, Offered: true})
	}
	pulled, msgs, err := h.pull(ctx, name, head, limit-len(commands), wait)
	if err != nil {
		return nil, false, err
	}
	offered := len(commands)
	commands = append(commands, pulled...)
	if len(commands) == 0 {
		return nil, false, nil
	}
	for i := range commands {
		commands[i].Worker, commands[i].Lease = worker, lease
	}
	results, err := h.store.StartHanded(ctx, q, commands)
	if err != nil {
		h.giveBack(msgs, relayWait)
		return nil, false, err
	}
	for i, r := range results {
		if r.Outcome == item.Changed {
			taken = append(taken, r)
		}
		if i >= offered {
			h.answer(msgs[i-offered], r.Outcome)
		}
	}
	slices.SortStableFunc(taken, func(a, b queue.Result) int { return cmp.Compare(b.Priority, a.Priority) })
	return taken, offered > 0, nil
}

// pull takes messages of up to limit items off the stream. Where there are fewer, it waits
// for those that have yet to be published. It asks the stream also where nothing is ready:
// an item that a daemon has let lapse is started until somebody else has its message.
func (h *Handout) pull(
	ctx context.Context, name string, head queue.Head, limit int, wait time.Duration,
) ([]queue.Command, []jetstream.Msg, error) {
	if limit == 0 {
		return nil, nil, nil
	}
	c, err := h.consumer(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	msgs, err := take(c.FetchNoWait(limit))
	missing := min(limit-len(msgs), head.Unpublished)
	if len(msgs) == 0 && head.Ready && len(head.Passing) == 0 {
		missing = max(missing, 1) // one may be under way
	}
	if err == nil && missing > 0 && wait > 0 {
		var more []jetstream.Msg
		more, err = take(c.Fetch(missing, jetstream.FetchMaxWait(wait)))
		msgs = append(msgs, more...)
		if err == nil && len(msgs) < limit {
			more, err = take(c.FetchNoWait(limit - len(msgs)))
			msgs = append(msgs, more...)
		}
	}
	if err != nil {
		h.forget(name)
		h.giveBack(msgs, 0)
		return nil, nil, fmt.Errorf("pull: %w", err)
	}
	commands, msgs := parse(msgs)
	return commands, msgs, nil
}

func take(batch jetstream.MessageBatch, err error) ([]jetstream.Msg, error) {
	if err != nil {
		return nil, err
	}
	var msgs []jetstream.Msg
	for m := range batch.Messages() {
		msgs = append(msgs, m)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return msgs, err
	}
	return msgs, nil
}

// parse reads messages. It removes a message that names no item.
func parse(all []jetstream.Msg) (commands []queue.Command, msgs []jetstream.Msg) {
	for _, m := range all {
		it, err := stream.ParseWorkItem(m.Data())
		if err != nil {
			_ = m.TermWithReason("no work item") // if that is lost, it is redelivered
			continue
		}
		commands, msgs = append(commands, queue.Command{ID: it.ID, Generation: it.Generation}), append(msgs, m)
	}
	return commands, msgs
}

// giveBack has the server hand messages out again after a delay.
func (h *Handout) giveBack(msgs []jetstream.Msg, delay time.Duration) {
	for _, m := range msgs {
		// If it is lost, the message is free after the time of a silent daemon.
		_ = h.nc.Publish(m.Reply(), stream.Refused(delay))
	}
}

// answer removes the message of an item that was started or is not ready any
// more, and gives back that of an item that may not be started now.
func (h *Handout) answer(m jetstream.Msg, outcome item.Outcome) {
	if outcome == item.Paused || outcome == item.Full {
		h.giveBack([]jetstream.Msg{m}, relayWait)
		return
	}
	// If it is lost, the message is redelivered, and its item is found to have moved.
	_ = h.nc.Publish(m.Reply(), stream.Settled)
}

func (h *Handout) consumer(ctx context.Context, name string) (jetstream.Consumer, error) {
	h.mu.Lock()
	c := h.consumers[name]
	h.mu.Unlock()
	if c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	c, err := h.js.Consumer(ctx, stream.Work, name)
	if err != nil {
		return nil, fmt.Errorf("find the consumer of %s: %w", name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.consumers[name] = c
	return c, nil
}

func (h *Handout) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.consumers, name)
}

// Ensure makes the consumer of a new queue with a lease, so that daemons can pull at once.
func (h *Handout) Ensure(ctx context.Context, name string, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	cfg := h.streams
	cfg.AckWait = lease
	return stream.EnsureConsumer(ctx, h.js, name, cfg)
}

// Drop deletes the consumer of a queue that was deleted, and its messages. It leaves
// those of a queue that has been made with the same name since.
func (h *Handout) Drop(ctx context.Context, name string) error {
	h.forget(name)
	ctx, cancel := context.WithTimeout(ctx, 2*requestWait)
	defer cancel()
	return h.store.Without(ctx, name, func(ctx context.Context) error { return stream.DropConsumer(ctx, h.js, name) })
}

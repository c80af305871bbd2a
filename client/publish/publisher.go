package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Config shapes a publisher. The zero value of a field stands for its default.
type Config struct {
	// Service is the service_name of events that do not name one.
	Service string
	// MaxBatch is the number of messages in an atomic batch; default, and
	// the server's own limit, 1,000.
	MaxBatch int
	// MaxBatchBytes bounds the size of an atomic batch; default 4 MiB.
	MaxBatchBytes int
	// InFlight is the number of batches under way at once, over all calls;
	// default 4. The server allows 50 for all publishers of a stream.
	InFlight int
	// Attempt is how long to wait for an answer before a message's fate
	// counts as unknown; default 5 s.
	Attempt time.Duration
	// AcceptRepeats is for callers who need not know which events are repeats:
	// nobody is asked, and their outcome is Accepted. They count once as always.
	AcceptRepeats bool
	// Forget has a repeat be only what a projector knows, and so has counted:
	// what this publisher has had acknowledged may be a dead letter since.
	Forget bool
	// Acked is told the stream and sequence of what the server has acknowledged. It
	// must not wait; default: nobody is told.
	Acked func(stream string, seq uint64)
	// Log gets warnings about retries; default none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.MaxBatch = cmp.Or(c.MaxBatch, 1000)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, 4<<20)
	c.InFlight = cmp.Or(c.InFlight, 4)
	c.Attempt = cmp.Or(c.Attempt, 5*time.Second)
	if c.Acked == nil {
		c.Acked = func(string, uint64) {}
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) check() error {
	if c.MaxBatch < 1 || c.MaxBatch > 1000 {
		return fmt.Errorf("publisher: MaxBatch is %d, not within 1 and 1000", c.MaxBatch)
	}
	if c.MaxBatchBytes < 0 || c.Attempt < 0 {
		return errors.New("publisher: MaxBatchBytes and Attempt must not be negative")
	}
	if c.InFlight < 1 || c.InFlight > 50 {
		return fmt.Errorf("publisher: InFlight is %d, not within 1 and 50", c.InFlight)
	}
	return nil
}

// Publisher publishes messages. It is safe for concurrent use and owns
// nothing that needs closing; the connection is the caller's.
type Publisher struct {
	cfg   Config
	nc    *nats.Conn
	js    jetstream.JetStream
	slots chan struct{} // one for each batch under way
	asker asker
	// batchesFrom is when batches may be tried again; nil: now.
	batchesFrom atomic.Pointer[time.Time]
	// recent has the events under way and those acknowledged last.
	recent recent
}

// New returns a publisher on a connection. For messages to survive a lost
// connection, let it reconnect for ever (nats.MaxReconnects(-1)); with
// nats.ReconnectBufSize(-1) an outage is noticed at once.
func New(nc *nats.Conn, cfg Config) (*Publisher, error) {
	cfg = cfg.withDefaults()
	if nc == nil {
		return nil, errors.New("publisher: a connection is needed")
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(cfg.Attempt),
		jetstream.WithPublishAsyncTimeout(cfg.Attempt),
		jetstream.WithPublishAsyncMaxPending(cfg.MaxBatch*cfg.InFlight))
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	return &Publisher{
		cfg: cfg, nc: nc, js: js, slots: make(chan struct{}, cfg.InFlight), asker: asker{nc: nc, js: js},
		recent: newRecent(cfg.Forget),
	}, nil
}

// PublishRaw publishes messages and returns what became of each, in their
// order. An event that stands twice is published once. The error is nil when
// every message is on the stream, or its event was, else that of the first that
// may not be; the outcomes hold either way. It retries until ctx ends, so give it
// an end.
func (p *Publisher) PublishRaw(ctx context.Context, msgs []Message) (_ []Outcome, err error) {
	if traced(ctx) {
		var span trace.Span
		ctx, span = begin(ctx, fmt.Sprintf("publish %d messages", len(msgs)))
		defer func() { end(span, err) }()
		msgs = slices.Clone(msgs)
		of := stream.TraceOf(ctx)
		for i := range msgs {
			msgs[i].trace = of
		}
	}
	outcomes := make([]Outcome, len(msgs))
	all := make([]int, len(msgs))
	for i := range all {
		all[i] = i
	}
	if p.cfg.AcceptRepeats {
		p.send(ctx, msgs, all, outcomes)
		return outcomes, firstError(msgs, outcomes)
	}
	left := p.recent.look(msgs, all, outcomes)
	left = p.ask(ctx, msgs, left, outcomes)
	for len(left) > 0 {
		c := p.recent.claim(msgs, left, outcomes)
		p.send(ctx, msgs, c.mine, outcomes)
		p.recent.release(msgs, c.mine, outcomes)
		c.copies(msgs, outcomes)
		left = c.await(ctx, outcomes)
	}
	return outcomes, firstError(msgs, outcomes)
}

// send publishes messages, by their places, until each has its outcome.
func (p *Publisher) send(ctx context.Context, msgs []Message, places []int, outcomes []Outcome) {
	var wg sync.WaitGroup
	for len(places) > 0 {
		n := p.cut(msgs, places)
		c := &chunk{p: p, msgs: msgs, pending: slices.Clone(places[:n]), outcomes: outcomes}
		places = places[n:]
		select {
		case p.slots <- struct{}{}:
			wg.Go(func() {
				defer func() { <-p.slots }()
				c.publish(ctx)
			})
		case <-ctx.Done():
			c.fail(unknown(ctx))
		}
	}
	wg.Wait()
}

// cut returns how many of the indexes make the next batch.
func (p *Publisher) cut(msgs []Message, idx []int) int {
	n, bytes := 0, 0
	for n < len(idx) && n < p.cfg.MaxBatch {
		bytes += msgs[idx[n]].size()
		if n > 0 && bytes > p.cfg.MaxBatchBytes {
			break
		}
		n++
	}
	return n
}

func firstError(msgs []Message, outcomes []Outcome) error {
	for i, o := range outcomes {
		if o.Status == Failed {
			return fmt.Errorf("publish to %s: %w", msgs[i].Subject, o.Err)
		}
	}
	return nil
}

// retryLevel is quiet while there is no connection: the connection's owner is
// told of that once, not with every attempt.
func (p *Publisher) retryLevel() slog.Level {
	if !p.nc.IsConnected() {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

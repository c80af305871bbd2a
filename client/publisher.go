package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	// Log gets warnings about retries; default none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxBatch == 0 {
		c.MaxBatch = 1000
	}
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = 4 << 20
	}
	if c.InFlight == 0 {
		c.InFlight = 4
	}
	if c.Attempt == 0 {
		c.Attempt = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
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
	// lastSeq is the highest sequence that an acknowledgement has named.
	lastSeq atomic.Uint64
	repeats share
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
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(cfg.Attempt), jetstream.WithPublishAsyncTimeout(cfg.Attempt),
		jetstream.WithPublishAsyncMaxPending(cfg.MaxBatch*cfg.InFlight))
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	return &Publisher{cfg: cfg, nc: nc, js: js, slots: make(chan struct{}, cfg.InFlight)}, nil
}

// PublishRaw publishes messages and returns what became of each, in their
// order. An id that stands twice is published once. The error is nil when
// every message is on the stream, else that of the first that may not be; the
// outcomes hold either way. It retries until ctx ends, so give it an end.
func (p *Publisher) PublishRaw(ctx context.Context, msgs []Message) ([]Outcome, error) {
	outcomes := make([]Outcome, len(msgs))
	unique, first := distinct(msgs)
	var wg sync.WaitGroup
	for len(unique) > 0 {
		n := p.cut(msgs, unique)
		c := &chunk{p: p, msgs: msgs, pending: unique[:n:n], outcomes: outcomes}
		unique = unique[n:]
		select {
		case p.slots <- struct{}{}:
			wg.Go(func() {
				defer func() { <-p.slots }()
				c.publish(ctx)
			})
		case <-ctx.Done():
			c.fail(unknown(ctx, nil))
		}
	}
	wg.Wait()
	for i, f := range first {
		if outcomes[i] = outcomes[f]; outcomes[i].Status == Accepted {
			outcomes[i].Status = Duplicate
		}
	}
	return outcomes, firstError(msgs, outcomes)
}

// distinct returns the indexes of messages to send, and for each other the
// index of the first with its id.
func distinct(msgs []Message) (unique []int, first map[int]int) {
	unique = make([]int, 0, len(msgs))
	seen := make(map[string]int, len(msgs))
	for i := range msgs {
		if f, ok := seen[msgs[i].ID]; ok && msgs[i].ID != "" {
			if first == nil {
				first = map[int]int{}
			}
			first[i] = f
			continue
		}
		seen[msgs[i].ID] = i
		unique = append(unique, i)
	}
	return unique, first
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

// noteSeq keeps the highest sequence seen.
func (p *Publisher) noteSeq(seq uint64) {
	for {
		last := p.lastSeq.Load()
		if seq <= last || p.lastSeq.CompareAndSwap(last, seq) {
			return
		}
	}
}

// share estimates which part of recent batches held duplicates, from 0 to
// 1,024; it need not be exact, so lost updates are fine.
type share struct{ value atomic.Int32 }

func (s *share) note(had bool) {
	v := s.value.Load()
	target := int32(0)
	if had {
		target = 1024
	}
	s.value.Store(v + (target-v)/4)
}

// likely tells whether asking first is cheaper: asking costs about a third of
// a batch that is refused and then sent again.
func (s *share) likely() bool { return s.value.Load() > 400 }

// retryLevel is quiet while there is no connection: the connection's owner is
// told of that once, not with every attempt.
func (p *Publisher) retryLevel() slog.Level {
	if !p.nc.IsConnected() {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

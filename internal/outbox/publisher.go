package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/retry"
)

// Config shapes a publisher. The zero value of a field stands for its default.
type Config struct {
	// Key names the lock of the process that publishes; required. See
	// leader.Config.
	Key int64
	// Poll is how often the outbox is read for messages of other processes;
	// default 100 ms.
	Poll time.Duration
}

// Deps are what a publisher needs. The connections are the caller's.
type Deps struct {
	NATS     *nats.Conn
	Postgres *pgxpool.Pool
	Registry prometheus.Registerer
	Log      *slog.Logger
	// Acked is told the stream and sequence of what the server has acknowledged. It
	// must not wait; nil: nobody is told.
	Acked func(stream string, seq uint64)
}

// Publisher publishes the messages of an outbox. Any number of processes may run
// one: one at a time publishes.
type Publisher struct {
	cfg       Config
	outbox    *Outbox
	js        jetstream.JetStream
	pool      *pgxpool.Pool
	lead      *leader.Candidate
	acked     func(stream string, seq uint64)
	log       *slog.Logger
	published prometheus.Counter
}

const (
	blockSize   = 500 // messages in flight at most
	requestWait = 3 * time.Second
)

// NewPublisher returns a publisher and starts nothing.
func NewPublisher(cfg Config, outbox *Outbox, deps Deps) (*Publisher, error) {
	if outbox == nil || deps.NATS == nil || deps.Postgres == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("outbox: an outbox, NATS, Postgres, a registry and a logger are needed")
	}
	if cfg.Poll == 0 {
		cfg.Poll = 100 * time.Millisecond
	}
	js, err := jetstream.New(deps.NATS, jetstream.WithPublishAsyncMaxPending(blockSize),
		jetstream.WithPublishAsyncTimeout(requestWait))
	if err != nil {
		return nil, err
	}
	log := deps.Log.With("component", "outbox", "stream", outbox.stream)
	lead, err := leader.New(leader.Config{Name: "the outbox of " + outbox.stream, Key: cfg.Key}, deps.Postgres, log)
	if err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg, outbox: outbox, js: js, pool: deps.Postgres, lead: lead, acked: deps.Acked, log: log}
	return p, p.register(deps.Registry)
}

func (p *Publisher) register(r prometheus.Registerer) error {
	labels := prometheus.Labels{"stream": p.outbox.stream}
	p.published = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "millrace_outbox_published_total", ConstLabels: labels,
		Help: "Messages that left the outbox in Postgres, since they are on their stream.",
	})
	return r.Register(p.published)
}

// Run publishes until ctx ends. It outlives servers that are away.
func (p *Publisher) Run(ctx context.Context) error { return p.lead.Run(ctx, p.publish) }

// publish publishes until something fails or the term ends.
func (p *Publisher) publish(ctx context.Context, _ leader.Term) error {
	for {
		n, err := p.turn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		retry.Well(ctx)
		if n > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.outbox.woken:
		case <-time.After(p.cfg.Poll):
		}
	}
}

// entry is a row of the outbox.
type entry struct {
	row int64
	Message
	after *int64
}

// turn publishes a block and returns how many messages have left the outbox.
func (p *Publisher) turn(ctx context.Context) (int, error) {
	block, err := p.next(ctx)
	if err != nil || len(block) == 0 {
		return 0, err
	}
	// What was begun by a term before this one may be on the stream.
	begun := block[:0:0]
	for _, e := range block {
		if e.after != nil {
			begun = append(begun, e)
		}
	}
	if len(begun) > 0 {
		block, err = p.settle(ctx, begun)
	} else {
		err = p.mark(ctx, block)
	}
	if err == nil {
		err = p.send(ctx, block)
	}
	if err != nil {
		return 0, err
	}
	return len(block), nil
}

// next reads the oldest messages, one of each key at most.
func (p *Publisher) next(ctx context.Context) ([]entry, error) {
	rows, _ := p.pool.Query(ctx, `SELECT id, key, subject, message_id, body, after_seq
		FROM millrace.message_outbox WHERE stream = $1 ORDER BY id LIMIT $2`, p.outbox.stream, blockSize)
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e entry, err error) {
		return e, r.Scan(&e.row, &e.Key, &e.Subject, &e.ID, &e.Body, &e.after)
	})
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	block, keys := all[:0], map[string]bool{}
	for _, e := range all {
		if !keys[e.Key] {
			keys[e.Key] = true
			block = append(block, e)
		}
	}
	return block, nil
}

// mark writes where the stream ends, before the block is published.
func (p *Publisher) mark(ctx context.Context, block []entry) error {
	last, err := p.lastSeq(ctx)
	if err != nil {
		return err
	}
	_, err = p.pool.Exec(ctx, "UPDATE millrace.message_outbox SET after_seq = $2 WHERE id = ANY ($1)",
		rowsOf(block), int64(last))
	if err != nil {
		return fmt.Errorf("begin to publish %d messages: %w", len(block), err)
	}
	return nil
}

func (p *Publisher) lastSeq(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	s, err := p.js.Stream(ctx, p.outbox.stream)
	if err != nil {
		return 0, fmt.Errorf("look at the stream %s: %w", p.outbox.stream, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// send publishes a block, and removes it from the outbox when the stream has all
// of it.
func (p *Publisher) send(ctx context.Context, block []entry) error {
	futures, begun := make([]jetstream.PubAckFuture, len(block)), time.Now()
	for i, e := range block {
		if time.Since(begun) > requestWait { // this process stood still, and may not lead any more
			return fmt.Errorf("publish to %s: %w", e.Subject, context.DeadlineExceeded)
		}
		msg := &nats.Msg{Subject: e.Subject, Data: e.Body}
		var err error
		if futures[i], err = p.js.PublishMsgAsync(msg, jetstream.WithMsgID(e.ID)); err != nil {
			return fmt.Errorf("publish to %s: %w", e.Subject, err)
		}
	}
	for i, f := range futures {
		select {
		case ack := <-f.Ok():
			if p.acked != nil {
				p.acked(ack.Stream, ack.Sequence)
			}
		case err := <-f.Err():
			return fmt.Errorf("publish to %s: %w", block[i].Subject, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return p.remove(ctx, block)
}

func (p *Publisher) remove(ctx context.Context, block []entry) error {
	if len(block) == 0 {
		return nil
	}
	_, err := p.pool.Exec(ctx, "DELETE FROM millrace.message_outbox WHERE id = ANY ($1)", rowsOf(block))
	if err != nil {
		return fmt.Errorf("remove %d published messages from the outbox: %w", len(block), err)
	}
	p.published.Add(float64(len(block)))
	return nil
}

func rowsOf(block []entry) []int64 {
	rows := make([]int64, len(block))
	for i, e := range block {
		rows[i] = e.row
	}
	return rows
}

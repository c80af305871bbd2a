package emit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/millrace-io/millrace/client/publish"
	"github.com/millrace-io/millrace/schemas/event"
)

// Client emits events without delaying its caller: a call returns when the
// event is in the buffer, and a goroutine delivers it. It is safe for
// concurrent use. A nil Client, and one without an address, do nothing.
//
//  1. No call takes longer than Options.Timeout, and none panics.
//  2. With a spool, an event that Emit took is delivered, over any outage of
//     Millrace and any end of the process, and counts once; without, it is when
//     the buffer is large enough for the outage and Close has the time.
//  3. An event that is lost is logged at once, with its stage, url_hash,
//     service and the error, and counted in the metrics: one that Millrace
//     refuses, that finds the buffer full, or that Close leaves behind. What the
//     spool loses to damage on its disk is logged and counted as a number.
type Client struct {
	opts    Options
	target  string // for logs and metrics
	queue   queue
	send    transport
	breaker *gobreaker.CircuitBreaker[[]publish.Outcome]
	metrics *metrics
	leave   func() // ends that the metrics show what waits
	lost    *lostLog
	dropped atomic.Uint64
	failure atomic.Pointer[string]    // why the last attempt failed; nil after a success
	opened  atomic.Pointer[time.Time] // when the breaker opened, by the monotonic clock
	news    chan struct{}             // holds one value after events came
	idle    chan chan struct{}        // asks to be told when nothing waits
	closing context.Context           // ends when Close is called
	drain   context.Context           // ends when Close has no more time
	stop    context.CancelFunc        // of closing
	expire  context.CancelFunc        // of drain
	done    chan struct{}             // closed when the goroutine has ended
	gate    sync.RWMutex              // of shut, and held by calls that push
	shut    bool
	once    sync.Once
	closed  error // of the first Close
}

// Errors of a client's calls, beside *event.Invalid.
var (
	// ErrDropped: the buffer or the spool is full, and the event was dropped.
	ErrDropped = errors.New("event dropped: too many wait to be delivered")
	// ErrClosed: the client was closed before.
	ErrClosed = errors.New("client is closed")
	// ErrTimeout: the spool took too long. The event may still be delivered.
	ErrTimeout = errors.New("the spool does not answer in time")
	// ErrUndelivered: Close had no time to deliver what the buffer held.
	ErrUndelivered = errors.New("events were not delivered")
)

// Open returns a client and does not wait for Millrace to be there. Close it.
func Open(opts Options) (*Client, error) {
	if opts.URL == "" {
		return &Client{}, nil
	}
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	shown, overHTTP, err := target(opts.URL)
	if err != nil {
		return nil, err
	}
	c := &Client{
		opts: opts, target: shown, news: make(chan struct{}, 1), idle: make(chan chan struct{}),
		done: make(chan struct{}),
	}
	c.closing, c.stop = context.WithCancel(context.Background())
	c.drain, c.expire = context.WithCancel(context.Background())
	if c.metrics, err = newMetrics(opts.Registry, shown); err != nil {
		return nil, err
	}
	c.lost = &lostLog{log: opts.Log, service: opts.Service}
	c.breaker = newBreaker(c)
	if overHTTP {
		c.send = newHTTPTransport(opts)
	} else {
		c.send = &natsTransport{opts: opts}
	}
	if c.queue, err = openQueue(opts, c.damage); err != nil {
		return nil, err
	}
	c.leave = c.metrics.waiting.add(c)
	go c.run()
	return c, nil
}

// off tells whether there is nothing to do.
func (c *Client) off() bool { return c == nil || c.queue == nil }

// Emit takes an event to deliver. An event without a time gets the present
// one, one without a service name that of the options. Its error is nil when
// the event was taken, an *event.Invalid when it breaks a rule, and ErrDropped
// when there is no room; it is logged and counted, so a caller may ignore it.
func (c *Client) Emit(ctx context.Context, e event.Event) error {
	if c.off() {
		return nil
	}
	text, err := c.encode(e)
	if err != nil {
		return err
	}
	return c.take(ctx, [][]byte{text})
}

// EmitBatch takes events to deliver, as Emit does. Events that it cannot take do
// not keep the others back; the error names them all.
func (c *Client) EmitBatch(ctx context.Context, events []event.Event) error {
	if c.off() {
		return nil
	}
	texts := make([][]byte, 0, len(events))
	var errs []error
	for i, e := range events {
		text, err := c.encode(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("event %d of %d: %w", i+1, len(events), err))
			continue
		}
		texts = append(texts, text)
	}
	return errors.Join(append(errs, c.take(ctx, texts))...)
}

// encode returns the text of an event as it is delivered. An event that breaks
// a rule is logged and counted.
func (c *Client) encode(e event.Event) (text []byte, err error) {
	stage := "" // for the metrics; that of an event which breaks a rule may be anything
	defer func() {
		if v := recover(); v != nil { // of a method of the metadata's values
			err = fmt.Errorf("marshal the event: %v", v)
		}
		if err != nil {
			c.metrics.failed(stage, 1)
			c.lost.report(c.briefOf(&e), err)
		}
	}()
	// Databases keep microseconds: what a service stores and what it emits
	// are then the same time, and a backfill from the one finds the other.
	if e.OccurredAt.IsZero() {
		e.OccurredAt = time.Now()
	}
	e.OccurredAt = e.OccurredAt.UTC().Truncate(time.Microsecond)
	var record event.Record
	text, err = publish.Encode(e, c.opts.Service, &record)
	if err != nil {
		return nil, err
	}
	stage = e.Stage
	// Only what has waited here is marked as backfilled on its way.
	if invalid := record.CheckAge(time.Now()); invalid != nil {
		return nil, invalid
	}
	return text, nil
}

// briefOf is of an event that may break any rule.
func (c *Client) briefOf(e *event.Event) brief {
	hash := sha256.Sum256([]byte(cmp.Or(e.CanonicalURL, e.ArticleURL)))
	return brief{e.Stage, shortHash(hash), cmp.Or(e.ServiceName, c.opts.Service)}
}

// take puts a call's events into the queue.
func (c *Client) take(ctx context.Context, texts [][]byte) error {
	if len(texts) == 0 {
		return nil
	}
	c.gate.RLock()
	defer c.gate.RUnlock()
	if c.shut {
		c.drop(texts, ErrClosed)
		return ErrClosed
	}
	taken, err := c.queue.push(ctx, texts)
	if taken > 0 {
		wake(c.news)
	}
	if err == nil {
		return nil
	}
	c.drop(texts[taken:], err)
	if n := len(texts) - taken; n > 1 {
		return fmt.Errorf("%d of %d events: %w", n, len(texts), err)
	}
	return err
}

// drop counts and logs events that nobody will deliver.
func (c *Client) drop(texts [][]byte, err error) {
	c.dropped.Add(uint64(len(texts)))
	c.metrics.drop(len(texts))
	var r event.Record
	for _, text := range texts {
		b := brief{service: c.opts.Service}
		if event.Decode(text, &r) == nil {
			b = briefOf(&r)
		}
		c.metrics.failed(b.stage, 1)
		c.lost.report(b, err)
	}
}

// damage counts events that a spool has lost, whatever they were.
func (c *Client) damage(n int) {
	c.metrics.failed("", n)
	c.dropped.Add(uint64(n))
	c.metrics.drop(n)
}

// Health is what a service tells of its client, in its own /health.
type Health struct {
	// Circuit is closed, open or half-open, or off without an address.
	Circuit             string `json:"circuit"`
	Target              string `json:"target_url,omitempty"`
	ConsecutiveFailures uint32 `json:"consecutive_failures"`
	Waiting             int    `json:"waiting"`       // events to deliver
	WaitingBytes        int64  `json:"waiting_bytes"` // their size
	Dropped             uint64 `json:"dropped"`       // events since Open
	LastError           string `json:"last_error,omitempty"`
}

// Health says how delivery goes. It does not wait for anything.
func (c *Client) Health() Health {
	if c.off() {
		return Health{Circuit: "off"}
	}
	h := Health{
		Circuit: c.breaker.State().String(), Target: c.target,
		ConsecutiveFailures: c.breaker.Counts().ConsecutiveFailures, Dropped: c.dropped.Load(),
	}
	h.Waiting, h.WaitingBytes = c.queue.size()
	if text := c.failure.Load(); text != nil {
		h.LastError = *text
	}
	return h
}

// Flush returns when everything that was taken before has been delivered or
// refused, or ctx ends.
func (c *Client) Flush(ctx context.Context) error {
	if c.off() {
		return nil
	}
	told := make(chan struct{})
	select {
	case c.idle <- told:
	case <-c.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("flush: %w", ctx.Err())
	}
	select {
	case <-told:
		return nil
	case <-c.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("flush: %w", ctx.Err())
	}
}

// Close takes no more events and delivers those that wait, until ctx ends or
// Millrace does not answer. What is left then stays in the spool, without an
// error; without a spool it is dropped, and the error is ErrUndelivered.
func (c *Client) Close(ctx context.Context) error {
	if c.off() {
		return nil
	}
	c.once.Do(func() {
		c.gate.Lock() // waits for calls under way
		c.shut = true
		c.gate.Unlock()
		c.stop()
		release := context.AfterFunc(ctx, c.expire)
		<-c.done
		release()
		c.expire()
		c.leave()
		left, _ := c.queue.size()
		err := c.queue.close()
		c.send.close()
		if left > 0 && c.opts.Spool == "" {
			err = errors.Join(fmt.Errorf("%d %w", left, ErrUndelivered), err)
			texts, _ := c.queue.read(left, math.MaxInt) // of memory, which never fails
			c.drop(texts, c.undelivered())
		}
		c.lost.tell()
		c.closed = err
	})
	return c.closed
}

// undelivered is why events are left when the client closes.
func (c *Client) undelivered() error {
	if last := c.failure.Load(); last != nil {
		return fmt.Errorf("%w: %s", ErrUndelivered, *last)
	}
	return ErrUndelivered
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// newBreaker returns a breaker that tells of its state.
func newBreaker(c *Client) *gobreaker.CircuitBreaker[[]publish.Outcome] {
	b := c.opts.Breaker
	return gobreaker.NewCircuitBreaker[[]publish.Outcome](gobreaker.Settings{
		Name: c.target, Timeout: b.OpenFor,
		// As many requests as have to succeed before it closes.
		MaxRequests: b.Successes,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= b.Failures },
		// Being asked for less, or to slow down, is no failure and no success.
		IsExcluded: func(err error) bool {
			var slow *slowDown
			var whole *refusedWhole
			return errors.As(err, &slow) || errors.As(err, &whole)
		},
		OnStateChange: c.circuitChanged,
	})
}

func (c *Client) circuitChanged(_ string, from, to gobreaker.State) {
	c.metrics.circuit(to)
	log := c.opts.Log.With("service", c.opts.Service, "target_url", c.target)
	switch to {
	case gobreaker.StateOpen:
		now := time.Now()
		c.opened.Store(&now)
		n := uint32(1) // the one that failed while half-open
		if from == gobreaker.StateClosed {
			n = c.opts.Breaker.Failures
		}
		log.Warn("pipeline circuit breaker opened", slog.Uint64("consecutive_failures", uint64(n)))
	case gobreaker.StateHalfOpen:
		log.Info("pipeline circuit breaker tries again")
	case gobreaker.StateClosed:
		log.Info("pipeline circuit breaker closed")
	}
}

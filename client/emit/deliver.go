package emit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/millrace-io/millrace/client/publish"
	"github.com/millrace-io/millrace/schemas/event"
)

// transport carries texts of events to Millrace.
type transport interface {
	// deliver returns what became of each. An outcome that is Failed with
	// errRefusal, ErrRefused or ErrTooLarge stays so however often it is
	// tried. The error is nil when no outcome is Failed with any other.
	deliver(ctx context.Context, batch []item) ([]publish.Outcome, error)
	close()
}

// item is an event on its way.
type item struct {
	text   []byte
	msg    publish.Message
	brief  brief
	at     time.Time // when it happened; zero for an event that may be of any age
	marked bool      // by the client, as backfilled
}

// errRefusal marks an event that Millrace refuses because of what it holds.
var errRefusal = errors.New("event refused")

// slowDown is the error of an attempt that Millrace asks to repeat later.
type slowDown struct{ after time.Duration }

func (s *slowDown) Error() string { return fmt.Sprintf("asked to wait %s", s.after) }

// refusedWhole is the error of a batch that is too large, or that Millrace refuses
// without naming the event to blame. Smaller batches find that event.
type refusedWhole struct{ error }

// Bounds of a batch and of the waits between attempts.
const (
	batchEvents = 500
	batchBytes  = 3 << 20
	lastRetry   = 5 * time.Second
)

// run delivers until the client is closed. What is wrong with one batch must
// not end it.
func (c *Client) run() {
	defer close(c.done)
	limit := batchEvents
	var waiters []chan struct{}
	for {
		texts, err := c.queue.read(limit, batchBytes)
		if err != nil {
			c.opts.Log.Error("pipeline spool cannot be read", "error", err)
			if c.closing.Err() != nil || !c.pause(lastRetry) {
				return
			}
			continue
		}
		if len(texts) > 0 {
			if limit = c.deliver(texts, limit); limit == 0 {
				return
			}
			if err := c.queue.drop(); err != nil {
				c.opts.Log.Warn("pipeline spool is not truncated", "error", err)
			}
			continue
		}
		for _, told := range waiters {
			close(told)
		}
		waiters = nil
		select {
		case <-c.news:
		case told := <-c.idle:
			waiters = append(waiters, told)
		case <-c.closing.Done():
			if n, _ := c.queue.size(); n == 0 {
				return
			}
		}
	}
}

// deliver tries until each event of a batch is delivered or refused. It
// returns how many events the next batch should have at most, fewer after
// failures, and 0 when the client closes first.
func (c *Client) deliver(texts [][]byte, limit int) int {
	pending := c.items(texts)
	wait := c.opts.retry
	var slow *slowDown
	var whole *refusedWhole
	for len(pending) > 0 {
		n := min(limit, len(pending))
		age(pending[:n], time.Now())
		outcomes, err := c.attempt(pending[:n])
		left := c.record(pending[:n], outcomes)
		pending = slices.Concat(left, pending[n:])
		switch {
		case err == nil:
			limit, wait = min(2*limit, batchEvents), c.opts.retry
			continue
		case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
			if c.closing.Err() != nil || !c.pause(c.untilHalfOpen()) {
				return 0
			}
			continue
		case errors.As(err, &whole):
			limit = max(1, n/2)
			continue
		case errors.As(err, &slow):
			wait = slow.after
		default:
			limit = max(1, limit/2)
			c.postpone(left, len(pending), err)
		}
		if !c.pause(wait/2 + rand.N(wait/2+1)) {
			return 0
		}
		wait = min(2*wait, lastRetry)
	}
	return limit
}

// attempt sends a batch once, if the breaker lets it.
func (c *Client) attempt(batch []item) (outcomes []publish.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			outcomes, err = nil, fmt.Errorf("deliver: %v", v)
		}
	}()
	return c.breaker.Execute(func() ([]publish.Outcome, error) {
		ctx, cancel := context.WithTimeout(c.drain, c.opts.Timeout)
		defer cancel()
		start := time.Now()
		outcomes, err := c.send.deliver(ctx, batch)
		c.metrics.took(time.Since(start))
		c.note(err)
		return outcomes, err
	})
}

func (c *Client) note(err error) {
	if err == nil {
		c.failure.Store(nil)
		return
	}
	text := err.Error()
	c.failure.Store(&text)
}

// record counts the events that are delivered or refused, and returns the others.
func (c *Client) record(batch []item, outcomes []publish.Outcome) (left []item) {
	for i := range batch {
		it := &batch[i]
		switch {
		case i >= len(outcomes):
			left = append(left, *it)
		case outcomes[i].Status != publish.Failed:
			c.metrics.delivered(it.brief.stage)
		case final(outcomes[i].Err):
			c.metrics.failed(it.brief.stage, 1)
			c.lost.report(it.brief, outcomes[i].Err)
		default:
			left = append(left, *it)
		}
	}
	return left
}

// postpone counts and logs events that an attempt has failed to deliver.
func (c *Client) postpone(left []item, waiting int, err error) {
	for i := range left {
		c.metrics.failed(left[i].brief.stage, 1)
	}
	first := brief{service: c.opts.Service}
	if len(left) > 0 {
		first = left[0].brief
	}
	c.opts.Log.Warn("pipeline events not delivered yet", "stage", first.stage, "url_hash", first.urlHash,
		"service", first.service,
		"target_url", c.target, "events", waiting, "error", err)
}

func final(err error) bool {
	return errors.Is(err, errRefusal) || errors.Is(err, publish.ErrRefused) || errors.Is(err, publish.ErrTooLarge)
}

// items decodes the texts of events. A text that cannot be decoded was damaged, or
// written by another version of the client.
func (c *Client) items(texts [][]byte) []item {
	batch := make([]item, 0, len(texts))
	var r event.Record
	for _, text := range texts {
		if invalid := event.Decode(text, &r); invalid != nil {
			c.metrics.failed("", 1)
			c.lost.report(brief{service: c.opts.Service}, invalid)
			continue
		}
		it := item{text: text, msg: publish.EventMessage(&r, text), brief: briefOf(&r)}
		if !r.Meta.Backfilled {
			it.at = r.Time()
		}
		batch = append(batch, it)
	}
	return batch
}

// tooOld is the age at which Millrace would refuse an event, or would by the
// time it has it.
const tooOld = event.MaxAge - 10*time.Minute

// age marks events as backfilled that have waited for too long.
func age(batch []item, now time.Time) {
	var r event.Record
	for i := range batch {
		it := &batch[i]
		if it.at.IsZero() || now.Sub(it.at) <= tooOld {
			continue
		}
		it.at = time.Time{}
		if event.Decode(it.text, &r) != nil {
			continue
		}
		if marked, invalid := event.MarkBackfilled(it.text, &r); invalid == nil {
			it.text, it.msg.Data, it.marked = marked, marked, true
		}
	}
}

// pause waits, and returns false when the client has no time left.
func (c *Client) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return c.drain.Err() == nil
	case <-c.closing.Done():
	}
	// While closing there is time until Close has none, or the breaker opens.
	if c.breaker.State() == gobreaker.StateOpen {
		return false
	}
	select {
	case <-timer.C:
		return c.drain.Err() == nil
	case <-c.drain.Done():
		return false
	}
}

// untilHalfOpen returns how long the breaker stays open.
func (c *Client) untilHalfOpen() time.Duration {
	var d time.Duration
	if opened := c.opened.Load(); opened != nil {
		d = c.opts.Breaker.OpenFor - time.Since(*opened)
	}
	return max(d, 0) + time.Millisecond
}

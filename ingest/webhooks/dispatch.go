package webhooks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// dispatch sends the items of one queue.
type dispatch struct {
	*Runner
	webhook Webhook
	host    string
	pace    *Pace

	running atomic.Int32
	ended   chan struct{} // gets a token when a request has ended
	idle    time.Duration // how long to wait for items
}

func newDispatch(r *Runner, w Webhook, pace *Pace) *dispatch {
	return &dispatch{Runner: r, webhook: w, host: w.Host(), pace: pace, ended: make(chan struct{}, 1)}
}

// How long to wait for items, where there were none.
const (
	leastIdle = 20 * time.Millisecond
	mostIdle  = time.Second
)

// run sends items until ctx ends, and returns when the last request has ended.
func (d *dispatch) run(ctx context.Context) {
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for ctx.Err() == nil {
		wait, err := d.step(ctx, calls)
		switch {
		case err == nil:
			loop.Well()
		case ctx.Err() == nil && loop.Failed(err):
			d.Log.Warn("items of a queue cannot be sent now", "queue", d.webhook.Queue, "error", err)
		}
		d.sleep(ctx, wait)
	}
	late := time.AfterFunc(d.cfg.Grace, cut)
	defer late.Stop()
	for d.running.Load() > 0 {
		<-d.ended
	}
}

// sleep waits for a while, until a request ends, or until ctx does.
func (d *dispatch) sleep(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-d.ended:
	case <-timer.C:
	}
}

// step takes items, as many as may be sent now, and has them sent. It returns how long to wait then.
func (d *dispatch) step(ctx, calls context.Context) (wait time.Duration, err error) {
	most := d.webhook.Concurrency - int(d.running.Load())
	for most > 0 && !d.room.TryAcquire(int64(most)) {
		most /= 2
	}
	if most <= 0 {
		return lookEvery, nil
	}
	n, ticket, wait := d.pace.Begin(most, time.Now())
	d.room.Release(int64(most - n))
	if n == 0 {
		if wait <= 0 {
			wait = lookEvery // until a request ends: of this queue, or of another one to the same host
		}
		return min(wait, lookEvery), nil
	}
	of, items, err := d.take(ctx, n)
	d.pace.Unused(n - len(items))
	d.room.Release(int64(n - len(items)))
	for _, it := range items {
		d.running.Add(1)
		go func() {
			defer d.release()
			d.send(calls, of, it, ticket)
		}()
	}
	switch {
	case err != nil:
		return lookEvery, err
	case len(items) == 0:
		d.idle = min(max(2*d.idle, leastIdle), mostIdle)
		return d.idle, nil
	}
	d.idle = 0
	return 0, nil
}

// release ends a request.
func (d *dispatch) release() {
	d.room.Release(1)
	d.running.Add(-1)
	select {
	case d.ended <- struct{}{}:
	default:
	}
}

// taken is an item that is to be sent.
type taken struct {
	Call
	generation int32
	until      time.Time // when its lease ends, at the earliest
}

// take takes items of the queue.
func (d *dispatch) take(ctx context.Context, n int) (of queue.Settings, items []taken, err error) {
	if of, err = d.Own.Get(ctx, d.webhook.Queue); errors.Is(err, queue.ErrNoQueue) {
		return of, nil, nil // its webhook goes with it
	}
	if err != nil {
		return of, nil, err
	}
	lease := d.webhook.Timeout + d.cfg.Margin
	until := time.Now().Add(lease)
	started, err := d.Hands.Take(ctx, of.Name, d.worker, n, lease)
	if err != nil || len(started) == 0 {
		return of, nil, err
	}
	ids := make([]int64, len(started))
	for i, r := range started {
		ids[i] = r.ID
	}
	stored, err := d.Own.Items(ctx, userqueue.Page{Queue: of.ID, IDs: ids, Limit: len(ids)})
	if err != nil {
		return of, nil, err // their leases end
	}
	found := make(map[int64]userqueue.Stored, len(stored))
	for _, it := range stored {
		found[it.ID] = it
	}
	for _, r := range started {
		it, there := found[r.ID]
		if !there {
			continue // it is gone with its queue
		}
		items = append(items, taken{Call{
			Queue: of.Name, ID: r.ID, Attempt: r.Attempts, Key: it.Key, Group: it.Group, Payload: it.Payload,
		}, r.Generation, until})
	}
	return of, items, nil
}

// lateReport is for how long reports are tried when requests have been cut off.
const lateReport = time.Second

// send sends an item, and reports what became of it. The context ends when requests are cut off.
func (d *dispatch) send(ctx context.Context, of queue.Settings, it taken, ticket Ticket) {
	bounded, cancel := context.WithTimeout(ctx, d.webhook.Timeout)
	answer := d.Sender.Send(bounded, d.webhook, it.Call)
	cancel()
	d.pace.End(ticket, answer, time.Now())
	r := answer.Report(d.host, it.Attempt, of.Followed, d.Own.Pacing())
	if answer.Err != nil && ctx.Err() != nil {
		r = stream.Report{Report: "release", Error: "the server that has sent it stops"}
	} else {
		d.requests.WithLabelValues(of.Name, string(answer.Kind())).Inc()
	}
	r.Queue, r.ID, r.Generation, r.Worker = of.Name, it.ID, it.generation, d.worker

	rest, cancel := context.WithDeadline(context.WithoutCancel(ctx), it.until)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lateReport, cancel) })()
	if kind := answer.Kind(); answer.RetryAfter != nil && (kind == Throttled || kind == Server) {
		if err := d.Store.Defer(rest, d.host, *answer.RetryAfter); err != nil {
			d.Log.Debug("other servers do not learn that a host wants a pause", "host", d.host, "error", err)
		}
	}
	if err := d.report(rest, of, r); err != nil {
		d.Log.Warn("what became of an item is not recorded: it is sent again when its lease ends", "queue", of.Name,
			"item", it.ID, "error", err)
	}
}

// report reports, and tries again until the lease ends.
func (d *dispatch) report(ctx context.Context, of queue.Settings, r stream.Report) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := d.reports.Make(ctx, of, r)
		var invalid *item.Invalid
		if errors.As(err, &invalid) && r.Report == "done" { // the receiver would answer so again
			r = stream.Report{
				Queue: r.Queue, ID: r.ID, Generation: r.Generation, Worker: r.Worker, Report: "fail", Permanent: true,
				Error: fmt.Sprintf("the webhook's answer: %s %s", invalid.Field, invalid.Rule),
			}
			continue
		}
		if err == nil || invalid != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
		}
	}
}

package userqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Reports applies what workers report about items that they hold: results, failures and
// progress, over HTTP and NATS, however the items were taken.
type Reports struct {
	store *Store
	hands *handout.Handout
}

// NewReports returns them on a store.
func NewReports(store *Store, hands *handout.Handout) (*Reports, error) {
	if store == nil || hands == nil {
		return nil, errors.New("reports of workers: the user queues and a handout are needed")
	}
	return &Reports{store, hands}, nil
}

// reports are the words for what workers report.
var reports = []string{"done", "fail", "again", "release", "extend"}

// CheckReport returns all rules that the members of a report break, whatever it is.
func CheckReport(r stream.Report) (broken []item.Invalid) {
	note := func(err error) {
		var invalid *item.Invalid
		if errors.As(err, &invalid) {
			broken = append(broken, *invalid)
		}
	}
	note(queue.CheckWorker(r.Worker))
	broken = append(broken, CheckPayload("result", r.Result)...)
	if r.DelayS != nil {
		note(item.CheckDelay(*r.DelayS))
	}
	if r.LeaseS != nil {
		note(item.CheckLease(*r.LeaseS))
	}
	note(item.CheckProgress(r.Progress))
	return broken
}

// Make applies a report to which CheckReport has no objection. The outcome says what
// became of it.
func (s *Reports) Make(ctx context.Context, of queue.Settings, r stream.Report) (queue.Result, error) {
	c := queue.Command{
		ID: r.ID, Generation: r.Generation, Worker: r.Worker, Error: item.CutError(r.Error), Result: r.Result,
		Progress: r.Progress,
	}
	if r.DelayS != nil {
		c.Delay = seconds(*r.DelayS)
	}
	pulled, err := s.hands.Pulled(ctx, of, c)
	if err != nil {
		return queue.Result{}, err
	}
	move, _ := handout.ParseMove(r.Report, reports)
	if move == handout.Extend {
		return s.extend(ctx, of, c, r.LeaseS, pulled)
	}
	if move == item.Fail && !r.Permanent && len(of.BackoffS) > 0 {
		move, c.Backoff = item.Again, r.DelayS == nil
	}
	ends := move == item.Complete || move == item.Fail
	if pulled != nil && !ends {
		if err := pulled.Remove(ctx); err != nil {
			return queue.Result{}, err
		}
	}
	results, err := s.hands.Move(ctx, of, move, []queue.Command{c})
	if err != nil {
		return queue.Result{}, err
	}
	if pulled != nil && ends && results[0].Outcome.OK() {
		_ = pulled.Settle() // lost: mending removes the message
	}
	return results[0], nil
}

// extend has a lease begin anew. That of an item that was pulled is the server's, which
// knows one length alone, unless the message is gone.
func (s *Reports) extend(
	ctx context.Context, of queue.Settings, c queue.Command, leaseS *float64, pulled *handout.Pulled,
) (queue.Result, error) {
	c.Lease = seconds(of.LeaseS)
	if leaseS != nil {
		c.Lease = seconds(*leaseS)
	}
	if pulled != nil {
		c.Generation, c.Worker = pulled.Generation, ""
		if pulled.There() {
			if leaseS != nil && *leaseS != of.LeaseS {
				return queue.Result{}, &item.Invalid{
					Field: "lease_s", Code: "fixed",
					Rule: fmt.Sprintf("must be %g, the lease of the queue, or left out: the item was pulled over NATS", of.LeaseS),
				}
			}
			c.Lease = 0
		}
	}
	results, err := s.hands.Move(ctx, of, handout.Extend, []queue.Command{c})
	if err != nil {
		return queue.Result{}, err
	}
	if results[0].Outcome == item.Changed && pulled != nil {
		err = pulled.Keep()
	}
	return results[0], err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// State returns the state of an item, as people are told it.
func (s *Store) State(ctx context.Context, q queue.ID, id int64) (string, error) {
	items, err := s.Items(ctx, Page{Queue: q, IDs: []int64{id}, Limit: 1})
	if err != nil || len(items) == 0 {
		return "", err
	}
	return items[0].State, nil
}

package userqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
	"unicode/utf8"

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
	for _, v := range []struct{ field, value string }{{"class", r.Class}, {"domain", r.Domain}} {
		if rule := CheckText(v.field, v.value); rule != nil {
			broken = append(broken, *rule)
		}
	}
	if r.RetryAfterS != nil && item.CheckDelay(*r.RetryAfterS) != nil {
		broken = append(broken, item.Invalid{
			Field: "retry_after_s", Code: "range", Rule: fmt.Sprintf("must be from 0 to %d seconds", item.MaxDelay),
		})
	}
	if r.NotFound && r.Skipped {
		broken = append(broken, item.Invalid{Field: "skipped", Code: "not_found", Rule: "must not stand beside not_found"})
	}
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
		c.Delay = item.Seconds(*r.DelayS)
	}
	move, _ := handout.ParseMove(r.Report, reports)
	move, invalid := s.settle(of, r, move, &c)
	if invalid != nil {
		return queue.Result{}, invalid
	}
	pulled, err := s.hands.Pulled(ctx, of, c)
	if err != nil {
		return queue.Result{}, err
	}
	if c.Wait != nil && r.Domain != "" {
		least, err := s.store.domainWait(ctx, of.ID, r)
		if err != nil {
			return queue.Result{}, err
		}
		c.Wait = s.waitOf(r, least)
	}
	if move == handout.Extend {
		return s.extend(ctx, of, c, r.LeaseS, pulled)
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

// settle says what a report asks for: the move, and what goes with it.
func (s *Reports) settle(of queue.Settings, r stream.Report, move item.Move, c *queue.Command) (item.Move, *item.Invalid) {
	if of.Followed {
		return s.settleRow(r, move, c), nil
	}
	for _, member := range []struct {
		field string
		given bool
	}{
		{"not_found", r.NotFound},
		{"skipped", r.Skipped},
		{"class", r.Class != ""},
		{"domain", r.Domain != ""},
		{"retry_after_s", r.RetryAfterS != nil},
	} {
		if member.given {
			return move, &item.Invalid{
				Field: member.field, Code: "no_upload", Rule: "must be left out: no upload is worked in this queue",
			}
		}
	}
	if broken := CheckPayload("result", r.Result); len(broken) > 0 {
		return move, &broken[0]
	}
	if move == item.Fail && !r.Permanent && len(of.BackoffS) > 0 {
		move, c.Backoff = item.Again, r.DelayS == nil
	}
	return move, nil
}

// MaxResult is how many bytes the result of a row has at most.
const MaxResult = 1 << 20

// settleRow does so in a queue that uploads follow. A result that breaks a rule ends its row, too: the worker would
// find the same one again.
func (s *Reports) settleRow(r stream.Report, move item.Move, c *queue.Command) item.Move {
	switch {
	case move == item.Complete:
		if c.Result = nil; !r.NotFound && !r.Skipped {
			SettleResult(c, r.Result)
		} else {
			c.Found = &queue.Found{NotFound: r.NotFound, Skipped: r.Skipped}
		}
	case move == item.Fail && !r.Permanent && item.ClassOf(r.Class) != item.ClassInvalid:
		move, c.Backoff = item.Again, r.DelayS == nil && r.Class == ""
		if r.DelayS == nil {
			c.Wait = s.waitOf(r, 0)
		}
	}
	return move
}

// SettleResult has the end of an item of an upload have a result, or the rule that it breaks.
func SettleResult(c *queue.Command, result []byte) {
	if result = bytes.TrimSpace(result); string(result) == "null" {
		result = nil
	}
	c.Result, c.Found = result, &queue.Found{Fault: ResultFault(result)}
}

// ResultFault returns the rule that the result of a row breaks, if any.
func ResultFault(result []byte) string {
	switch {
	case len(result) == 0:
		return ""
	case len(result) > MaxResult:
		return fmt.Sprintf("result: must be at most %d bytes of JSON, and has %d", MaxResult, len(result))
	case result[0] != '{' || !json.Valid(result):
		return "result: must be a JSON object"
	case !utf8.Valid(result):
		return "result: must be valid UTF-8"
	case !storable(result):
		return "result: " + unstorable("").Rule
	}
	return ""
}

// waitOf returns how long a row waits after an error: as long as its class or the queue says, with jitter, and at least
// as long as the other side has asked for, and as its domain needs.
func (s *Reports) waitOf(r stream.Report, least time.Duration) func(attempts int32, delay time.Duration) time.Duration {
	return func(attempts int32, delay time.Duration) time.Duration {
		if delay == 0 {
			delay = s.store.pacing.Wait(r.Class, attempts)
		}
		delay = delay/2 + rand.N(delay+1) // half as long to half as long again
		if r.RetryAfterS != nil {
			delay = max(delay, item.Seconds(*r.RetryAfterS))
		}
		return max(delay, least)
	}
}

// extend has a lease begin anew. That of an item that was pulled is the server's, which
// knows one length alone, unless the message is gone.
func (s *Reports) extend(
	ctx context.Context, of queue.Settings, c queue.Command, leaseS *float64, pulled *handout.Pulled,
) (queue.Result, error) {
	c.Lease = item.Seconds(of.Lease())
	if leaseS != nil {
		c.Lease = item.Seconds(*leaseS)
	}
	if pulled != nil {
		c.Generation, c.Worker = pulled.Generation, ""
		if pulled.There() {
			if leaseS != nil && *leaseS != of.Lease() {
				return queue.Result{}, &item.Invalid{
					Field: "lease_s", Code: "fixed",
					Rule: fmt.Sprintf("must be %g, the lease of the queue, or left out: the item was pulled over NATS", of.Lease()),
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

// State returns the state of an item, as people are told it.
func (s *Store) State(ctx context.Context, q queue.ID, id int64) (string, error) {
	items, err := s.Items(ctx, Page{Queue: q, IDs: []int64{id}, Limit: 1})
	if err != nil || len(items) == 0 {
		return "", err
	}
	return items[0].State, nil
}

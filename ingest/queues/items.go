package queues

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/queue/queueapi"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TakenQueueItem is an item that was taken.
type TakenQueueItem struct {
	ID         int64           `json:"id"`
	Generation int32           `json:"generation" doc:"Names this taking; moves that name it do nothing once another worker holds the item"`
	Attempt    int32           `json:"attempt" doc:"The number of this attempt, from 1"`
	Key        string          `json:"key,omitempty"`
	Group      string          `json:"group,omitempty"`
	Priority   int16           `json:"priority"`
	Payload    json.RawMessage `json:"payload"`
	CreatedAt  time.Time       `json:"created_at"`
	LeaseUntil *time.Time      `json:"lease_until"`
	Trace      string          `json:"traceparent,omitempty" doc:"The span that added the item (W3C Trace Context), where somebody traces it"`
}

// TakenFromQueue is the answer.
type TakenFromQueue struct {
	Items []TakenQueueItem `json:"items" nullable:"false" doc:"None when the queue is empty, paused, or as many are started as it allows"`
}

// taken answers what was taken, with what the items are.
func (h *Handler) taken(ctx context.Context, t queueapi.Taking) (TakenFromQueue, error) {
	out := TakenFromQueue{Items: make([]TakenQueueItem, 0, len(t.Items))}
	if len(t.Items) == 0 {
		return out, nil
	}
	ids := make([]int64, len(t.Items))
	for i, r := range t.Items {
		ids[i] = r.ID
	}
	items, err := h.store.Items(ctx, userqueue.Page{Queue: t.Queue.ID, IDs: ids, Limit: len(ids)})
	found := make(map[int64]userqueue.Stored, len(items))
	for _, it := range items {
		found[it.ID] = it
	}
	for _, r := range t.Items {
		it := found[r.ID]
		out.Items = append(out.Items, TakenQueueItem{
			ID: r.ID, Generation: r.Generation, Attempt: r.Attempts, Key: it.Key, Group: it.Group, Priority: r.Priority,
			Payload: it.Payload, CreatedAt: r.CreatedAt.UTC(), LeaseUntil: it.LeaseUntil, Trace: r.Trace,
		})
	}
	return out, err
}

// MoveQueueItemRequest says what became of an item.
type MoveQueueItemRequest struct {
	Name
	ID         int64  `path:"id" minimum:"1"`
	Transition string `path:"transition" doc:"done, fail, again, release, extend, cancel or retry" example:"done"`
	Body       struct {
		Generation int32           `json:"generation,omitempty" minimum:"1" doc:"The taking that is meant, as take has answered, or the message that is, as it says"`
		Worker     string          `json:"worker,omitempty" doc:"Who has it; a worker that is named cannot report for another"`
		Result     json.RawMessage `json:"result,omitempty" doc:"With done: a JSON document of up to 64 KiB that is kept with the item. Of a row of an upload: an object of up to 1 MiB"`
		Error      string          `json:"error,omitempty" doc:"With fail, again, release: why"`
		Permanent  bool            `json:"permanent,omitempty" doc:"With fail: no other attempt"`
		DelayS     *float64        `json:"delay_s,omitempty" doc:"With fail, again, release: seconds until it can be taken again"`
		LeaseS     *float64        `json:"lease_s,omitempty" doc:"With extend: seconds from now; default that of the queue, and no other for an item that was pulled over NATS"`
		Progress   string          `json:"progress,omitempty" doc:"With extend: what the worker is at, in up to 500 bytes; empty: as before"`

		NotFound    bool     `json:"not_found,omitempty" doc:"With done, of a row of an upload: there is no result"`
		Skipped     bool     `json:"skipped,omitempty" doc:"With done, of a row of an upload: it needs no result"`
		Class       string   `json:"class,omitempty" doc:"With fail, of a row of an upload: throttled (429), server (5xx), network, or invalid, which leaves no other attempt. It says how long the row waits" example:"throttled"`
		Domain      string   `json:"domain,omitempty" doc:"With fail, of a row of an upload: whose error it is" example:"shop.example"`
		RetryAfterS *float64 `json:"retry_after_s,omitempty" doc:"With fail, of a row of an upload: seconds that it waits at least"`
	}
}

// MovedQueueItem is the answer.
type MovedQueueItem struct {
	ID         int64  `json:"id"`
	State      string `json:"state" enum:"new,scheduled,started,done,failed,dead,cancelled"`
	Generation int32  `json:"generation"`
	Attempts   int32  `json:"attempts"`
}

// QueueItemConflict is the problem of a move that the item's state does not allow.
type QueueItemConflict struct {
	httpapi.Problem
	ID           int64  `json:"id"`
	CurrentState string `json:"current_state" enum:"new,scheduled,started,done,failed,dead,cancelled"`
	Generation   int32  `json:"generation"`
}

// words name the moves that callers may ask for.
var words = []string{"done", "fail", "again", "release", "extend", "cancel", "retry"}

// report is what the request says, as a worker says it over NATS.
func (in *MoveQueueItemRequest) report() stream.Report {
	b := in.Body
	return stream.Report{
		Queue: in.Queue, ID: in.ID, Generation: b.Generation, Report: in.Transition, Worker: b.Worker, Result: b.Result,
		Error: b.Error, Permanent: b.Permanent, DelayS: b.DelayS, LeaseS: b.LeaseS, Progress: b.Progress,
		NotFound: b.NotFound, Skipped: b.Skipped, Class: b.Class, Domain: b.Domain, RetryAfterS: b.RetryAfterS,
	}
}

// Resolve implements huma.Resolver.
func (in *MoveQueueItemRequest) Resolve(ctx huma.Context) []error {
	var broken []item.Invalid
	if _, rule := handout.ParseMove(in.Transition, words); rule != "" {
		broken = append(broken, item.Invalid{Field: "transition", Code: "transition_unknown", Rule: rule})
	}
	broken = append(broken, userqueue.CheckReport(in.report())...)
	return append(in.Params.Resolve(ctx), faults(broken)...)
}

func (h *Handler) move(ctx context.Context, in *MoveQueueItemRequest) (MovedQueueItem, error) {
	v, err := h.store.Get(ctx, in.Queue)
	if err != nil {
		return MovedQueueItem{}, err
	}
	result, err := h.apply(ctx, v, in)
	if err != nil {
		return MovedQueueItem{}, err
	}
	return h.moved(ctx, v.ID, in.Queue, in.ID, in.Transition, result, result.Outcome.OK())
}

// moved answers what became of an item.
func (h *Handler) moved(
	ctx context.Context, q queue.ID, name string, id int64, transition string, result queue.Result, ok bool,
) (MovedQueueItem, error) {
	if result.Outcome == item.NotFound {
		return MovedQueueItem{}, endpoint.NotFound("id", "must be an item of the queue")
	}
	state, err := h.store.State(ctx, q, id)
	if err != nil {
		return MovedQueueItem{}, err
	}
	if !ok {
		return MovedQueueItem{}, newConflict(name, id, transition, result, state)
	}
	return MovedQueueItem{result.ID, state, result.Generation, result.Attempts}, nil
}

// ReplayQueueItemRequest has an item tried again with another payload.
type ReplayQueueItemRequest struct {
	Name
	ID   int64 `path:"id" minimum:"1"`
	Body struct {
		Generation int32           `json:"generation" minimum:"1" doc:"That of the item as it was read: one that has moved since stays as it is"`
		Payload    json.RawMessage `json:"payload" doc:"JSON of up to 64 KiB"`
	}
}

// Resolve implements huma.Resolver.
func (in *ReplayQueueItemRequest) Resolve(ctx huma.Context) []error {
	return append(in.Params.Resolve(ctx), faults(userqueue.CheckPayload("payload", in.Body.Payload))...)
}

func (h *Handler) replay(ctx context.Context, in *ReplayQueueItemRequest) (MovedQueueItem, error) {
	v, err := h.store.Get(ctx, in.Queue)
	if err != nil {
		return MovedQueueItem{}, err
	}
	by := auth.CallerFrom(ctx).Subject
	result, err := h.store.Replay(ctx, v.ID, in.ID, in.Body.Generation, in.Body.Payload, by)
	if err != nil {
		return MovedQueueItem{}, err
	}
	return h.moved(ctx, v.ID, in.Queue, in.ID, "replay", result, result.Outcome == item.Changed)
}

func (h *Handler) apply(ctx context.Context, v queue.Settings, in *MoveQueueItemRequest) (queue.Result, error) {
	var results []queue.Result
	var err error
	switch in.Transition {
	case "retry":
		results, err = h.store.Retry(ctx, v.ID, []int64{in.ID})
	case "cancel":
		results, err = h.hands.Move(ctx, v, item.Cancel, []queue.Command{{
			ID: in.ID, Generation: in.Body.Generation, Worker: in.Body.Worker, Error: item.CutError(in.Body.Error),
		}})
	default:
		return h.reports.Make(ctx, v, in.report())
	}
	if err != nil || len(results) == 0 {
		return queue.Result{Outcome: item.NotFound}, err
	}
	return results[0], nil
}

func newConflict(name string, id int64, transition string, r queue.Result, state string) *QueueItemConflict {
	outcome := r.Outcome
	if transition == "replay" && outcome == item.Repeated {
		outcome = item.Fenced
	}
	broken := userqueue.Conflict(transition, state, outcome)
	back := transition == "retry" || transition == "replay"
	if back && outcome != item.Fenced && r.Status == item.Failed {
		broken.Rule = cmp.Or(r.Rule, "must not have a key that another live item has")
	}
	broken.Code = r.Outcome.String()
	p := httpapi.NewProblem(http.StatusConflict, fmt.Sprintf("item %d of %s is %s: %s is not possible", id, name, state,
		transition),
		httpapi.FieldError(broken))
	return &QueueItemConflict{Problem: *p, ID: id, CurrentState: state, Generation: r.Generation}
}

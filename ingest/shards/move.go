package shards

import (
	"context"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// maxBulk is how many items one request may move.
const maxBulk = 5000

// MovePath names a move.
type MovePath struct {
	httpapi.Params
	Stage      string `path:"stage" doc:"shard-splitter, shard-worker or mysql-sender" example:"shard-worker"`
	Transition string `path:"transition" doc:"start, done, fail, retry, release, again or extend" example:"done"`
	Key        string `header:"Idempotency-Key" doc:"With start, by a caller who names no worker: the same key with the same start is the same caller, who is told 200 again; 1 to 190 bytes"`
}

// words name the moves that callers may ask for.
var words = []string{"start", "done", "fail", "retry", "release", "again", "extend"}

// asked is what a request asks for.
type asked struct {
	stage    shard.Stage
	move     item.Move
	commands []queue.Command
}

// parse checks what a request says, but for its items. All commands are like the
// one that it returns.
func (p MovePath) parse(o Options) (a asked, like queue.Command, err error) {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	a.stage, err = shard.CheckQueue(p.Stage)
	note(err)
	var rule string
	if a.move, rule = handout.ParseMove(p.Transition, words); rule != "" {
		note(&item.Invalid{Field: "transition", Code: "transition_unknown", Rule: rule})
	}
	like, err = o.parse()
	note(err)
	if a.move == handout.Extend && o.LeaseS == nil {
		note(&item.Invalid{Field: "lease_s", Code: "missing", Rule: "is required"})
	}
	if p.Transition == item.Start.String() && o.Worker == "" && p.Key != "" {
		like.Worker = keyPrefix + p.Key
		if broken, ok := queue.CheckWorker(like.Worker).(*item.Invalid); ok {
			const rule = "must be a printable text of at most 190 bytes"
			note(&item.Invalid{Field: "Idempotency-Key", Code: broken.Code, Rule: rule})
		}
	}
	return a, like, errors.Join(errs...)
}

// keyPrefix begins the worker's name of an item that was started by a caller who
// gave an idempotency key and no name.
const keyPrefix = "key:"

// Options are what a move may say beyond the item.
type Options struct {
	Worker string   `json:"worker,omitempty" doc:"Who does the work; one that is named cannot report for another, and may start what it has started; not nats"`
	LeaseS *float64 `json:"lease_s,omitempty" doc:"With start and extend: seconds, 1 to 86,400, after which the item is new again unless it has moved; without it a start has no end"`
	DelayS *float64 `json:"delay_s,omitempty" doc:"With retry, release, again: seconds until the item stands in the queue; with done: until it stands in the next"`
	Error  string   `json:"error,omitempty" doc:"With fail and again: why"`
}

// Item names an item.
type Item struct {
	Filename   string `json:"filename" example:"20250101000000"`
	Shard      int64  `json:"shard" example:"0"`
	Generation int32  `json:"generation,omitempty" minimum:"1" doc:"The taking that is meant, as take has answered: nothing happens if another worker holds the item by now"`
}

// MoveItem is the body of a move.
type MoveItem struct {
	Item
	Options
}

// MoveRequest is a move of one item.
type MoveRequest struct {
	MovePath
	Body  MoveItem
	asked asked // by Resolve
}

// Resolve implements huma.Resolver.
func (r *MoveRequest) Resolve(ctx huma.Context) []error {
	var err error
	r.asked, err = r.parse()
	return append(r.Params.Resolve(ctx), endpoint.Faults(err)...)
}

func (r *MoveRequest) parse() (asked, error) {
	a, like, err := r.MovePath.parse(r.Body.Options)
	c, wrong := r.Body.command(like)
	a.commands = []queue.Command{c}
	return a, errors.Join(err, wrong)
}

// Moved is the answer.
type Moved struct {
	Filename string `json:"filename" example:"20250101000000"`
	Shard    int32  `json:"shard" example:"0"`
	Stage    string `json:"stage" example:"shard-worker"`
	Status   string `json:"status" doc:"The item's status at the stage" enum:"new,started,done,failed" example:"done"`
}

func (h *Handler) move(ctx context.Context, in *MoveRequest) (Moved, error) {
	a := in.asked
	results, err := h.apply(ctx, a)
	if err != nil {
		return Moved{}, err
	}
	switch r := results[0]; {
	case r.Outcome == item.NotFound:
		return Moved{}, endpoint.NotFound("shard", "must be a shard of a file that was registered")
	case !r.Outcome.OK():
		return Moved{}, tracking.NewConflict(r, a.stage, a.move)
	default:
		return Moved{r.Name, r.Part, a.stage.String(), r.Status.String()}, nil
	}
}

// parse checks what a caller says beyond the items.
func (o Options) parse() (c queue.Command, err error) {
	c = queue.Command{Worker: o.Worker, Error: item.CutError(o.Error)}
	var errs [2]error
	c.Lease, errs[0] = seconds(o.LeaseS, item.CheckLease)
	c.Delay, errs[1] = seconds(o.DelayS, item.CheckDelay)
	return c, errors.Join(queue.CheckWorker(o.Worker), errs[0], errs[1])
}

// command checks what a caller says about an item.
func (it Item) command(like queue.Command) (c queue.Command, err error) {
	c = like
	c.Name, err = shard.Filename(it.Filename)
	c.Part, c.Generation = int32(it.Shard), it.Generation
	return c, errors.Join(err, shard.CheckShard(it.Shard))
}

func (h *Handler) apply(ctx context.Context, a asked) ([]queue.Result, error) {
	return h.hands.Move(ctx, queue.Settings{ID: queue.ID(a.stage), Name: a.stage.String()}, a.move, a.commands)
}

// BulkRequest is a move of many items.
type BulkRequest struct {
	MovePath
	Body struct {
		Items []Item `json:"items" nullable:"false" doc:"1 to 5,000 items"`
		Options
	}
	asked asked // by Resolve
}

// shownItems bounds the items whose faults an answer tells.
const shownItems = 20

// Resolve implements huma.Resolver.
func (r *BulkRequest) Resolve(ctx huma.Context) []error {
	var err error
	r.asked, err = r.parse()
	return append(r.Params.Resolve(ctx), endpoint.Faults(err)...)
}

func (r *BulkRequest) parse() (asked, error) {
	a, like, err := r.MovePath.parse(r.Body.Options)
	errs := []error{err}
	if n := len(r.Body.Items); n == 0 || n > maxBulk {
		errs = append(errs,
			&item.Invalid{Field: "items", Code: "length", Rule: fmt.Sprintf("must be 1 to %d items", maxBulk)})
	}
	a.commands = make([]queue.Command, len(r.Body.Items))
	for i, it := range r.Body.Items {
		var err error
		if a.commands[i], err = it.command(like); err != nil && len(errs) <= shownItems {
			errs = append(errs, at(fmt.Sprintf("items[%d].", i), err))
		}
	}
	return a, errors.Join(errs...)
}

// ItemOutcome is what became of one of them.
type ItemOutcome struct {
	Filename   string `json:"filename"`
	Shard      int32  `json:"shard"`
	Outcome    string `json:"outcome" enum:"changed,repeated,forbidden,fenced,not_found,paused,full" doc:"changed and repeated: the item is where it was asked to be"`
	Status     string `json:"status,omitempty" enum:"new,started,done,failed" doc:"The item's status at the stage"`
	Generation int32  `json:"generation,omitempty"`
}

// Bulk is the answer.
type Bulk struct {
	Stage      string        `json:"stage"`
	Transition string        `json:"transition"`
	Changed    int           `json:"changed" doc:"Items that moved"`
	Repeated   int           `json:"repeated" doc:"Items that had made the move before"`
	Refused    int           `json:"refused" doc:"All others"`
	Results    []ItemOutcome `json:"results" doc:"In the order of the request"`
}

func (h *Handler) moveMany(ctx context.Context, in *BulkRequest) (Bulk, error) {
	results, err := h.apply(ctx, in.asked)
	if err != nil {
		return Bulk{}, err
	}
	out := Bulk{Stage: in.Stage, Transition: in.Transition, Results: make([]ItemOutcome, len(results))}
	for i, r := range results {
		out.Results[i] = ItemOutcome{
			Filename: r.Name, Shard: r.Part, Outcome: r.Outcome.String(),
			Generation: r.Generation,
		}
		if r.Outcome != item.NotFound {
			out.Results[i].Status = r.Status.String()
		}
		switch r.Outcome {
		case item.Changed:
			out.Changed++
		case item.Repeated:
			out.Repeated++
		default:
			out.Refused++
		}
	}
	return out, nil
}

// at says which of many items breaks the rules.
func at(prefix string, err error) error {
	var all []error
	for _, e := range endpoint.Faults(err) {
		invalid := item.Invalid(e.(httpapi.FieldError))
		invalid.Field = prefix + invalid.Field
		all = append(all, &invalid)
	}
	return errors.Join(all...)
}

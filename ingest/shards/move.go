package shards

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingapi"
	"github.com/millrace-io/millrace/schemas/shard"
)

// maxBulk is how many items one request may move.
const maxBulk = 5000

// MovePath names a move.
type MovePath struct {
	Stage      string `path:"stage" doc:"shard-splitter, shard-worker or mysql-sender" example:"shard-worker"`
	Transition string `path:"transition" doc:"start, done, fail, retry, release, again or extend" example:"done"`
}

// moves are those that callers may ask for. To extend a lease is none of the
// state's moves.
var moves = map[string]shard.Move{
	"start": shard.Start, "done": shard.Complete, "fail": shard.Fail, "retry": shard.Retry, "release": shard.Release, "again": shard.Again,
}

const extend = "extend"

// parse checks the path. extending is true for the one that is no move.
func (p MovePath) parse() (stage shard.Stage, move shard.Move, extending bool, err error) {
	if stage, err = shard.CheckQueue(p.Stage); err != nil {
		return 0, 0, false, err
	}
	if p.Transition == extend {
		return stage, 0, true, nil
	}
	move, ok := moves[p.Transition]
	if !ok {
		return 0, 0, false, &shard.Invalid{Field: "transition", Code: "transition_unknown", Rule: "must be start, done, fail, retry, release, again or extend"}
	}
	return stage, move, false, nil
}

// Options are what a move may say beyond the item.
type Options struct {
	Worker string   `json:"worker,omitempty" doc:"Who does the work; one that is named cannot report for another; not nats"`
	LeaseS *float64 `json:"lease_s,omitempty" doc:"With start and extend: seconds, 1 to 86,400, after which the item is new again unless it has moved; without it a start has no end"`
	DelayS *float64 `json:"delay_s,omitempty" doc:"With retry, release, again: seconds until the item stands in the queue; with done: until it stands in the next"`
	Error  string   `json:"error,omitempty" doc:"With fail and again: why"`
}

// Item names an item.
type Item struct {
	Filename   string `json:"filename" example:"20250101000000"`
	Shard      int64  `json:"shard" example:"0"`
	Generation int32  `json:"generation,omitempty" minimum:"1" doc:"The taking that is meant, as take has answered: nothing happens if the item is in other hands by now"`
}

// MoveItem is the body of a move.
type MoveItem struct {
	Item
	Options
}

// MoveRequest is a move of one item.
type MoveRequest struct {
	MovePath
	Body MoveItem
}

// Moved is the answer.
type Moved struct {
	Filename string `json:"filename" example:"20250101000000"`
	Shard    int32  `json:"shard" example:"0"`
	Stage    string `json:"stage" example:"shard-worker"`
	Status   string `json:"status" doc:"The item's status at the stage" enum:"new,started,done,failed" example:"done"`
}

func (h *Handler) move(ctx context.Context, in *MoveRequest) (Moved, error) {
	stage, move, extending, err := in.parse()
	if err != nil {
		return Moved{}, err
	}
	c, err := command(in.Body.Item, in.Body.Options)
	if err != nil {
		return Moved{}, err
	}
	results, err := h.apply(ctx, stage, move, extending, []tracking.Command{c})
	if err != nil {
		return Moved{}, err
	}
	switch r := results[0]; {
	case r.Outcome == shard.NotFound:
		return Moved{}, trackingapi.NotFound("shard", "must be a shard of a file that was registered")
	case !r.Outcome.OK():
		return Moved{}, trackingapi.NewConflict(r, stage, move)
	default:
		return Moved{r.Filename, r.Shard, stage.String(), r.Status.String()}, nil
	}
}

// command checks what a caller says about an item.
func command(it Item, o Options) (c tracking.Command, err error) {
	if err := shard.CheckFilename(it.Filename); err != nil {
		return c, err
	}
	if err := shard.CheckShard(it.Shard); err != nil {
		return c, err
	}
	if err := tracking.CheckWorker(o.Worker); err != nil {
		return c, err
	}
	c = tracking.Command{Filename: it.Filename, Shard: int32(it.Shard), Generation: it.Generation, Worker: o.Worker, Error: shard.CutError(o.Error)}
	if c.Lease, err = seconds(o.LeaseS, shard.CheckLease); err != nil {
		return c, err
	}
	c.Delay, err = seconds(o.DelayS, shard.CheckDelay)
	return c, err
}

// apply makes a move, or extends leases.
func (h *Handler) apply(ctx context.Context, stage shard.Stage, move shard.Move, extending bool, commands []tracking.Command) ([]tracking.Result, error) {
	switch {
	case extending:
		return h.extend(ctx, stage, commands)
	case move == shard.Start:
		return h.store.StartNamed(ctx, stage, commands)
	}
	return h.store.Apply(ctx, stage, move, commands)
}

// extend moves the ends of leases. What was not extended is in other hands.
func (h *Handler) extend(ctx context.Context, stage shard.Stage, commands []tracking.Command) ([]tracking.Result, error) {
	for _, c := range commands {
		if c.Lease == 0 {
			return nil, &shard.Invalid{Field: "lease_s", Code: "missing", Rule: "is required"}
		}
	}
	extended, err := h.store.Extend(ctx, stage, commands)
	if err != nil {
		return nil, err
	}
	results, err := h.store.Look(ctx, stage, commands)
	for i := range results {
		switch {
		case results[i].Outcome == shard.NotFound:
		case extended[i]:
			results[i].Outcome = shard.Changed
		default:
			results[i].Outcome = shard.Fenced
		}
	}
	return results, err
}

// BulkRequest is a move of many items.
type BulkRequest struct {
	MovePath
	Body struct {
		Items []Item `json:"items" nullable:"false" doc:"1 to 5,000 items"`
		Options
	}
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
	stage, move, extending, err := in.parse()
	if err != nil {
		return Bulk{}, err
	}
	if n := len(in.Body.Items); n == 0 || n > maxBulk {
		return Bulk{}, &shard.Invalid{Field: "items", Code: "length", Rule: fmt.Sprintf("must be 1 to %d items", maxBulk)}
	}
	commands := make([]tracking.Command, len(in.Body.Items))
	for i, it := range in.Body.Items {
		if commands[i], err = command(it, in.Body.Options); err != nil {
			return Bulk{}, at(fmt.Sprintf("items[%d].", i), err)
		}
	}
	results, err := h.apply(ctx, stage, move, extending, commands)
	if err != nil {
		return Bulk{}, err
	}
	out := Bulk{Stage: stage.String(), Transition: in.Transition, Results: make([]ItemOutcome, len(results))}
	for i, r := range results {
		out.Results[i] = ItemOutcome{Filename: r.Filename, Shard: r.Shard, Outcome: r.Outcome.String(), Generation: r.Generation}
		if r.Outcome != shard.NotFound {
			out.Results[i].Status = r.Status.String()
		}
		switch r.Outcome {
		case shard.Changed:
			out.Changed++
		case shard.Repeated:
			out.Repeated++
		default:
			out.Refused++
		}
	}
	return out, nil
}

// at says which of many items breaks the rule.
func at(prefix string, err error) error {
	if invalid, ok := err.(*shard.Invalid); ok {
		return &shard.Invalid{Field: prefix + invalid.Field, Code: invalid.Code, Rule: invalid.Rule}
	}
	return err
}

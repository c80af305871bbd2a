package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Bounds of a take.
const (
	maxTake      = 1000
	defaultTake  = 10
	defaultLease = 5 * time.Minute
)

// TakeRequest asks for items.
type TakeRequest struct {
	httpapi.Params
	Stage string `path:"stage" doc:"shard-splitter, shard-worker or mysql-sender" example:"shard-worker"`
	Body  struct {
		Worker string   `json:"worker" doc:"Who takes them; 1 to 200 bytes, and not nats" example:"host-7"`
		Limit  *int     `json:"limit,omitempty" doc:"How many at most, 1 to 1,000; default 10" example:"10"`
		LeaseS *float64 `json:"lease_s,omitempty" doc:"Seconds, 1 to 86,400, until they are new again unless they have moved; default 300" example:"60"`
	}
}

// Resolve implements huma.Resolver.
func (r *TakeRequest) Resolve(ctx huma.Context) []error {
	_, err := r.parse()
	return append(r.Params.Resolve(ctx), endpoint.Faults(err)...)
}

// taking is what a TakeRequest asks for.
type taking struct {
	stage shard.Stage
	limit int
	lease time.Duration
}

func (r *TakeRequest) parse() (t taking, err error) {
	t = taking{limit: defaultTake, lease: defaultLease}
	var errs [4]error
	t.stage, errs[0] = shard.CheckQueue(r.Stage)
	if errs[1] = tracking.CheckWorker(r.Body.Worker); r.Body.Worker == "" {
		errs[1] = &shard.Invalid{Field: "worker", Code: "missing", Rule: "is required"}
	}
	if r.Body.Limit != nil {
		t.limit = *r.Body.Limit
	}
	if t.limit < 1 || t.limit > maxTake {
		errs[2] = &shard.Invalid{Field: "limit", Code: "range", Rule: fmt.Sprintf("must be from 1 to %d", maxTake)}
	}
	if r.Body.LeaseS != nil {
		t.lease, errs[3] = seconds(r.Body.LeaseS, shard.CheckLease)
	}
	return t, errors.Join(errs[:]...)
}

// TakenItem is an item that was taken.
type TakenItem struct {
	Filename   string    `json:"filename" example:"20250101000000"`
	Shard      int32     `json:"shard" example:"0"`
	CreatedAt  time.Time `json:"created_at"`
	Generation int32     `json:"generation" doc:"Names this taking; said with done, fail, release, again or extend, these do nothing once another worker holds the item"`
	Attempt    int32     `json:"attempt" doc:"How often it has been taken, with this time"`
}

// Taken is the answer.
type Taken struct {
	Stage  string      `json:"stage" example:"shard-worker"`
	LeaseS float64     `json:"lease_s" example:"60"`
	Items  []TakenItem `json:"items" doc:"None when the queue is empty, the stage is paused, or as many are started as it allows"`
}

func (h *Handler) take(ctx context.Context, in *TakeRequest) (Taken, error) {
	t, err := in.parse()
	if err != nil {
		return Taken{}, err
	}
	taken, err := h.hands.Take(ctx, t.stage.String(), in.Body.Worker, t.limit, t.lease)
	out := Taken{Stage: t.stage.String(), LeaseS: t.lease.Seconds(), Items: make([]TakenItem, 0, len(taken))}
	for _, r := range taken {
		out.Items = append(out.Items, TakenItem{r.Name, r.Part, r.CreatedAt.UTC(), r.Generation, r.Attempts})
	}
	return out, err
}

package shards

import (
	"context"
	"fmt"
	"time"

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
	Stage string `path:"stage" doc:"shard-splitter, shard-worker or mysql-sender" example:"shard-worker"`
	Body  struct {
		Worker string   `json:"worker" doc:"Who takes them; 1 to 200 bytes, and not nats" example:"host-7"`
		Limit  *int     `json:"limit,omitempty" doc:"How many at most, 1 to 1,000; default 10" example:"10"`
		LeaseS *float64 `json:"lease_s,omitempty" doc:"Seconds, 1 to 86,400, until they are new again unless they have moved; default 300" example:"60"`
	}
}

// TakenItem is an item that was taken.
type TakenItem struct {
	Filename   string    `json:"filename" example:"20250101000000"`
	Shard      int32     `json:"shard" example:"0"`
	CreatedAt  time.Time `json:"created_at"`
	Generation int32     `json:"generation" doc:"Names this taking; said with done, fail, release, again or extend, these do nothing once the item is in other hands"`
	Attempt    int32     `json:"attempt" doc:"How often it has been taken, with this time"`
}

// Taken is the answer.
type Taken struct {
	Stage  string      `json:"stage" example:"shard-worker"`
	LeaseS float64     `json:"lease_s" example:"60"`
	Items  []TakenItem `json:"items" doc:"None when the queue is empty, the stage is paused, or as many are started as it allows"`
}

func (h *Handler) take(ctx context.Context, in *TakeRequest) (Taken, error) {
	stage, err := shard.CheckQueue(in.Stage)
	if err != nil {
		return Taken{}, err
	}
	if in.Body.Worker == "" {
		return Taken{}, &shard.Invalid{Field: "worker", Code: "missing", Rule: "is required"}
	}
	if err := tracking.CheckWorker(in.Body.Worker); err != nil {
		return Taken{}, err
	}
	limit := defaultTake
	if in.Body.Limit != nil {
		limit = *in.Body.Limit
	}
	if limit < 1 || limit > maxTake {
		return Taken{}, &shard.Invalid{Field: "limit", Code: "range", Rule: fmt.Sprintf("must be from 1 to %d", maxTake)}
	}
	lease, err := seconds(in.Body.LeaseS, shard.CheckLease)
	if err != nil {
		return Taken{}, err
	}
	if in.Body.LeaseS == nil {
		lease = defaultLease
	}
	taken, err := h.store.Take(ctx, stage, in.Body.Worker, limit, lease)
	out := Taken{Stage: stage.String(), LeaseS: lease.Seconds(), Items: make([]TakenItem, 0, len(taken))}
	for _, r := range taken {
		out.Items = append(out.Items, TakenItem{r.Filename, r.Shard, r.CreatedAt.UTC(), r.Generation, r.Attempts})
	}
	return out, err
}

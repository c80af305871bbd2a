package shards

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/queueapi"
	"github.com/millrace-io/millrace/schemas/shard"
)

// StagePath names a stage with a queue.
type StagePath struct {
	httpapi.Params
	Stage string `path:"stage" doc:"shard-splitter, shard-worker or mysql-sender" example:"shard-worker"`
}

// Resolve implements huma.Resolver.
func (p StagePath) Resolve(ctx huma.Context) []error {
	_, err := shard.CheckQueue(p.Stage)
	return append(p.Params.Resolve(ctx), endpoint.Faults(err)...)
}

// StageRequest is a request about a stage, with a document.
type StageRequest[Doc any] struct {
	StagePath
	Body Doc
}

// Asks implements queueapi.Request.
func (r *StageRequest[Doc]) Asks() (string, Doc) { return r.Stage, r.Body }

// defaultLeaseS is the lease in seconds of a worker that names none.
const defaultLeaseS = 300

// queues are the queues of the stages.
func (h *Handler) queues() queueapi.System[LimitRequestBody, StageSettings, Taken] {
	return queueapi.System[LimitRequestBody, StageSettings, Taken]{
		Queues: h.store.Queues(), Hands: h.hands,
		Find: func(_ context.Context, name string) (queue.Settings, error) {
			stage, err := shard.CheckQueue(name)
			return queue.Settings{ID: queue.ID(stage), Name: name, LeaseS: defaultLeaseS}, err
		},
		Settings: func(v queue.Settings) StageSettings {
			return StageSettings{v.Name, v.Paused, v.Concurrency, v.MaxAttempts}
		},
		Taken: taken,
	}
}

// StageSettings are the switches of a stage.
type StageSettings struct {
	Stage       string `json:"stage" example:"shard-worker"`
	Paused      bool   `json:"paused"`
	Concurrency int    `json:"concurrency" doc:"Items started at a time by all workers together; 0: any number"`
	MaxAttempts int    `json:"max_attempts" doc:"Attempts after which an item that is given back fails, and is dead; 0: any number"`
}

// LimitRequestBody limits a stage.
type LimitRequestBody struct {
	Concurrency *int `json:"concurrency,omitempty" minimum:"0" maximum:"1000000" doc:"Items started at a time by all workers together; 0: any number"`
	MaxAttempts *int `json:"max_attempts,omitempty" minimum:"0" maximum:"1000000" doc:"Attempts after which an item that is given back fails, and is dead; 0: any number"`
}

// Set implements queueapi.Limiting.
func (b LimitRequestBody) Set() queue.Set {
	return queue.Set{Concurrency: b.Concurrency, MaxAttempts: b.MaxAttempts}
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

func taken(_ context.Context, t queueapi.Taking) (Taken, error) {
	out := Taken{Stage: t.Queue.Name, LeaseS: t.Lease.Seconds(), Items: make([]TakenItem, 0, len(t.Items))}
	for _, r := range t.Items {
		out.Items = append(out.Items, TakenItem{r.Name, r.Part, r.CreatedAt.UTC(), r.Generation, r.Attempts})
	}
	return out, nil
}

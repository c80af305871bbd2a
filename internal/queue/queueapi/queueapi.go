// Package queueapi has the operations on queues over HTTP that are alike in every system:
// taking items, switching a queue off and on, and limiting it. A system says how its
// requests name a queue, what else they may say, and what its answers look like.
package queueapi

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/schemas/item"
)

// Limiting is a document with limits of a queue.
type Limiting interface{ Set() queue.Set }

// System is the queues of a system. Limits is the document that limits one, Settings an
// answer with its switches, and Taken one with items that were taken.
type System[Limits Limiting, Settings, Taken any] struct {
	Queues *queue.Store
	Hands  *handout.Handout
	// Find returns the settings of a queue, of which only number, name and lease count.
	Find     func(ctx context.Context, name string) (queue.Settings, error)
	Settings func(queue.Settings) Settings
	Taken    func(context.Context, Taking) (Taken, error)
}

// Request is a request about a queue, with a document.
type Request[In, Doc any] interface {
	endpoint.Request[In]
	// Asks returns the name of the queue and the document.
	Asks() (queue string, doc Doc)
}

// NoMembers is the document of a command that says all in its path: members, such as the
// group that a caller means, are refused.
type NoMembers struct{}

// Bounds of a take.
const (
	maxTake     = 1000
	defaultTake = 10
)

// TakeItems is the document of a request for items.
type TakeItems struct {
	Worker string   `json:"worker" doc:"Who takes them; 1 to 200 bytes, and not nats" example:"host-7"`
	Limit  *int     `json:"limit,omitempty" doc:"How many at most, 1 to 1,000; default 10" example:"10"`
	LeaseS *float64 `json:"lease_s,omitempty" doc:"Seconds, 1 to 86,400, until they are new again unless they have moved; default that of the queue, 300 for stages of shards" example:"60"`
}

// Resolve implements huma.Resolver.
func (b TakeItems) Resolve(huma.Context) []error {
	errs := []error{queue.CheckWorker(b.Worker), nil, nil}
	if b.Worker == "" {
		errs[0] = &item.Invalid{Field: "worker", Code: "missing", Rule: "is required"}
	}
	if n := Or(b.Limit, defaultTake); n < 1 || n > maxTake {
		errs[1] = &item.Invalid{Field: "limit", Code: "range", Rule: fmt.Sprintf("must be from 1 to %d", maxTake)}
	}
	if b.LeaseS != nil {
		errs[2] = item.CheckLease(*b.LeaseS)
	}
	return endpoint.Faults(errs...)
}

// Taking is what became of a request for items.
type Taking struct {
	Queue queue.Settings
	Lease time.Duration
	Items []queue.Result
}

// Take registers the operation that takes items.
func Take[In any, P Request[In, TakeItems], Limits Limiting, Settings, Taken any](
	s System[Limits, Settings, Taken], api endpoint.API, op endpoint.Operation,
) {
	endpoint.Post[In, Taken, P](api, op, func(ctx context.Context, in *In) (out Taken, err error) {
		name, doc := P(in).Asks()
		of, err := s.Find(ctx, name)
		if err != nil {
			return out, err
		}
		t := Taking{Queue: of, Lease: item.Seconds(Or(doc.LeaseS, of.Lease()))}
		t.Items, err = s.Hands.Take(ctx, of.Name, doc.Worker, Or(doc.Limit, defaultTake), t.Lease)
		if err != nil {
			return out, err
		}
		return s.Taken(ctx, t)
	})
}

// Switch registers the operation that has a queue hand out nothing, or items again. Callers
// may leave the body out.
func Switch[In any, P Request[In, *NoMembers], Limits Limiting, Settings, Taken any](
	s System[Limits, Settings, Taken], api endpoint.API, op endpoint.Operation, paused bool,
) {
	endpoint.Post[In, Settings, P](api, op.WithoutBody(), func(ctx context.Context, in *In) (Settings, error) {
		name, _ := P(in).Asks()
		return s.set(ctx, name, queue.Set{Paused: &paused})
	})
}

// Limit registers the operation that limits a queue.
func Limit[In any, P Request[In, Limits], Limits Limiting, Settings, Taken any](
	s System[Limits, Settings, Taken], api endpoint.API, op endpoint.Operation,
) {
	endpoint.Post[In, Settings, P](api, op, func(ctx context.Context, in *In) (Settings, error) {
		name, doc := P(in).Asks()
		return s.set(ctx, name, doc.Set())
	})
}

func (s System[Limits, Settings, Taken]) set(
	ctx context.Context, name string, set queue.Set,
) (out Settings, err error) {
	v, err := s.Find(ctx, name)
	if err == nil {
		v, err = s.Queues.Set(ctx, v.ID, set)
	}
	if err != nil {
		return out, err
	}
	return s.Settings(v), nil
}

// Or is a value that was given, or the default.
func Or[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}

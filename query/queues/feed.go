package queues

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/query/live"
)

// UserQueueTransition is something that happened to an item of a queue.
type UserQueueTransition struct {
	ID         string    `json:"id" doc:"Its place in the order of all"`
	Queue      string    `json:"queue" example:"mail"`
	Item       int64     `json:"item"`
	Transition string    `json:"transition" enum:"register,start,done,fail,retry,release,again,expire,cancel" example:"done"`
	Status     string    `json:"status" enum:"new,started,done,failed" doc:"After it" example:"done"`
	Attempt    int32     `json:"attempt" doc:"How often the item had been taken"`
	Worker     string    `json:"worker,omitempty"`
	Error      string    `json:"error,omitempty"`
	At         time.Time `json:"at"`
}

// feed begins a feed of the transitions of a queue.
func (h *Handler) feed(r *http.Request) (live.Follow, error) {
	v, err := h.store.Get(r.Context(), r.PathValue("queue"))
	if err != nil {
		return nil, err
	}
	caller := auth.CallerFrom(r.Context())
	return func(ctx context.Context, after queue.Place) ([]live.Transition, error) {
		all, err := h.store.Queues().Follow(ctx, after, live.TransitionPage)
		if err != nil {
			return nil, err
		}
		hidden, err := h.hidden(auth.WithCaller(ctx, caller), v, all)
		events := make([]live.Transition, len(all))
		for i, t := range all {
			if events[i].Place = t.Place; t.Queue == v.ID && !hidden[t.Item] {
				events[i].Data = UserQueueTransition{
					t.Place.String(), v.Name, t.Item, t.Move, t.Status, t.Attempt, t.Worker, t.Error, t.At.UTC(),
				}
			}
		}
		return events, err
	}, nil
}

// hidden returns those items of transitions in a queue that the caller may not see.
func (h *Handler) hidden(ctx context.Context, v queue.Settings, all []queue.Transition) (map[int64]bool, error) {
	if auth.CallerFrom(ctx).Has(auth.Admin) {
		return nil, nil
	}
	hidden := map[int64]bool{}
	for _, t := range all {
		if t.Queue == v.ID {
			hidden[t.Item] = true
		}
	}
	if len(hidden) == 0 {
		return nil, nil
	}
	page := userqueue.Page{Queue: v.ID, IDs: slices.Collect(maps.Keys(hidden)), Limit: len(hidden)}
	var err error
	if page.Visible, err = userqueue.VisibleTo(ctx, h.owners, v.Name); err != nil {
		return nil, err
	}
	return hidden, h.store.Each(ctx, page, func(m queue.Member) error {
		delete(hidden, m.Item)
		return nil
	})
}

func describeFeed(srv *httpapi.Server) *huma.Operation {
	name := &huma.Param{Name: "queue", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}
	return live.DescribeTransitions(srv, huma.Operation{
		OperationID: "follow-queue-transitions", Path: "/queues/{queue}/transitions", Tags: []string{"Queues"},
		Summary: "Transitions of a queue's items as they happen", Parameters: []*huma.Param{name},
	}, UserQueueTransition{})
}

package views

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/schemas/item"
)

// LiveQueue is what stands in a queue.
type LiveQueue struct {
	Name        string     `json:"name" doc:"Of the queue; of a queue of shards, the stage" example:"shard-worker"`
	Ready       int64      `json:"ready" doc:"Items that can be taken now"`
	Delayed     int64      `json:"delayed" doc:"Items that can be taken later"`
	Running     int64      `json:"running" doc:"Items that a worker has"`
	Done        int64      `json:"done"`
	Failed      int64      `json:"failed" doc:"Items that have failed, dead and cancelled ones included"`
	Dead        int64      `json:"dead" doc:"Failed items without attempts left; of shards, cancelled ones as well"`
	Cancelled   int64      `json:"cancelled" doc:"Items that were cancelled; of shards, they count as dead"`
	Paused      bool       `json:"paused"`
	OldestSince *time.Time `json:"oldest_since" doc:"Since when the oldest ready item has been ready; null in an empty queue"`
}

// LiveQueues is the state of the view queues.
type LiveQueues struct {
	Queues []LiveQueue `json:"queues"`
}

// QueueStates tells what stands in all queues, at a cost that does not depend on
// how much that is. A *queue.Store does.
type QueueStates interface {
	Summary(ctx context.Context, other func(kind, key int32, n int64)) ([]queue.State, error)
}

// QueuesOf returns the view of all queues: those of shards, and those that people
// have made.
func QueuesOf(states QueueStates) live.View {
	return live.Polled(live.View{
		Name: "queues", Summary: "what stands in each work queue",
	}, "the queues are not known while Postgres is away or slow", func(ctx context.Context) (LiveQueues, error) {
		all, err := states.Summary(ctx, func(int32, int32, int64) {})
		if err != nil {
			return LiveQueues{}, fmt.Errorf("count queues: %w", err)
		}
		queues := make([]LiveQueue, len(all))
		for i, v := range all {
			queues[i] = liveQueue(v)
		}
		return LiveQueues{queues}, nil
	})
}

func liveQueue(v queue.State) LiveQueue {
	q := LiveQueue{
		Name: v.Name, Ready: v.Depth, Delayed: v.Delayed, Running: v.Counts[item.Started], Done: v.Counts[item.Done],
		Failed: v.Counts[item.Failed], Dead: v.Dead - v.Cancelled, Cancelled: v.Cancelled, Paused: v.Paused,
	}
	if !v.Oldest.IsZero() {
		since := v.Oldest.UTC()
		q.OldestSince = &since
	}
	return q
}

package views

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/item"
)

// QueueGauges returns the gauges of all queues, user-defined ones too: six for each of at
// most a thousand queues. A queue that is deleted has none.
func QueueGauges(states QueueStates) sampler.Source {
	gauge := func(name, help string) *sampler.Gauge { return sampler.NewGauge(name, help, "queue") }
	ready := gauge("millrace_queue_ready", "Items that can be taken now.")
	delayed := gauge("millrace_queue_delayed", "Items that can be taken later.")
	running := gauge("millrace_queue_running", "Items that a worker has.")
	dead := gauge("millrace_queue_dead", "Failed items without attempts left.")
	paused := gauge("millrace_queue_paused", "1 while the queue is paused.")
	oldest := gauge("millrace_queue_oldest_ready_age_seconds",
		"How long the oldest ready item has been ready; 0 in an empty queue.")
	return sampler.Source{
		Name: "queues", Gauges: []*sampler.Gauge{ready, delayed, running, dead, paused, oldest},
		Read: func(ctx context.Context, set sampler.Set) error {
			all, err := states.Summary(ctx, func(int32, int32, int64) {})
			if err != nil {
				return fmt.Errorf("count queues: %w", err)
			}
			for _, v := range all {
				q := liveQueue(v)
				set(ready, float64(q.Ready), q.Name)
				set(delayed, float64(q.Delayed), q.Name)
				set(running, float64(v.Counts[item.Started]), q.Name)
				set(dead, float64(q.Dead), q.Name)
				set(paused, sampler.Bool(q.Paused), q.Name)
				set(oldest, v.OldestAge.Seconds(), q.Name)
			}
			return nil
		},
	}
}

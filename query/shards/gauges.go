package shards

import (
	"context"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Gauges returns the state of shards in numbers.
func Gauges(store *tracking.Store) sampler.Source {
	items := sampler.NewGauge("millrace_shard_items", "Items by their status at a stage.", "stage", "status")
	depth := sampler.NewGauge("millrace_shard_queue_depth", "Items that can be taken now.", "stage")
	oldest := sampler.NewGauge("millrace_shard_queue_oldest_age_seconds",
		"How long the oldest item has been in the queue; 0 in an empty one.",
		"stage")
	delayed := sampler.NewGauge("millrace_shard_queue_delayed", "Items that can be taken later.", "stage")
	dead := sampler.NewGauge("millrace_shard_queue_dead", "Failed items without attempts left.", "stage")
	paused := sampler.NewGauge("millrace_shard_queue_paused", "1 while the stage is paused.", "stage")
	return sampler.Source{
		Name: "shards", Gauges: []*sampler.Gauge{items, depth, oldest, delayed, dead, paused},
		Read: func(ctx context.Context, set sampler.Set) error {
			s, err := store.Summary(ctx)
			if err != nil {
				return err
			}
			for stage, counts := range s.ByStage {
				for status, n := range counts {
					set(items, float64(n), shard.Stage(stage).String(), item.Status(status).String())
				}
			}
			for _, q := range s.Queues {
				name, isPaused := q.Name, 0.0
				if q.Paused {
					isPaused = 1
				}
				set(depth, float64(q.Depth), name)
				set(oldest, q.OldestAge.Seconds(), name)
				set(delayed, float64(q.Delayed), name)
				set(dead, float64(q.Dead), name)
				set(paused, isPaused, name)
			}
			return nil
		},
	}
}

package tracking

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Counts are numbers of items by status.
type Counts = queue.Counts

// ShardCounts are the numbers of one shard, over all files.
type ShardCounts struct {
	Shard               int32
	Total, Done, Failed int64 // done and failed at the last stage
}

// QueueState is what stands in a stage's queue.
type QueueState struct {
	StageSettings
	Depth   int64 // takeable now
	Delayed int64 // takeable later
	Dead    int64 // failed with no attempt left
	// Oldest is since when the item that has stood in the queue longest has
	// done so; zero in an empty queue. It is some seconds old.
	Oldest time.Time
}

// Summary is the state in numbers, all of one moment.
type Summary struct {
	Total   int64
	ByStage [4]Counts // by shard.Stage
	ByShard []ShardCounts
	Queues  []QueueState // by stage
}

// Summary returns the state in numbers. What it costs does not depend on the
// number of items.
func (s *Store) Summary(ctx context.Context) (Summary, error) {
	var out Summary
	states, err := s.queues.Summary(ctx, func(kind, key int32, n int64) {
		switch {
		case kind >= countTotal && kind <= countFailed:
			out.addShard(kind, key, n)
		case kind < int32(len(out.ByStage[0])): // of event-ingest, which has no queue
			out.ByStage[shard.EventIngest][kind] = n
			out.Total += n
		}
	})
	for _, v := range states {
		if stage := shard.Stage(v.ID); (Kind{}).Holds(v.ID) {
			out.ByStage[stage] = v.Counts
			out.Queues = append(out.Queues, QueueState{
				StageSettings: StageSettings{stage, v.Paused, v.Concurrency, v.MaxAttempts},
				Depth:         v.Depth, Delayed: v.Delayed, Dead: v.Dead, Oldest: v.Oldest,
			})
		}
	}
	return out, err
}

func (v *Summary) addShard(kind int32, key int32, n int64) {
	last := len(v.ByShard) - 1
	if last < 0 || v.ByShard[last].Shard != key {
		if n == 0 {
			return // all of the shard's files were purged
		}
		v.ByShard = append(v.ByShard, ShardCounts{Shard: key})
		last++
	}
	switch kind {
	case countTotal:
		v.ByShard[last].Total = n
	case countDone:
		v.ByShard[last].Done = n
	case countFailed:
		v.ByShard[last].Failed = n
	}
}

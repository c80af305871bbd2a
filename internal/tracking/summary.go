package tracking

import (
	"context"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/shard"
)

// ShardCounts are the numbers of one shard, over all files.
type ShardCounts struct {
	Shard               int32
	Total, Done, Failed int64 // done and failed at the last stage
}

// Summary is the state in numbers, all of one moment.
type Summary struct {
	Total   int64
	ByStage [4]queue.Counts // by shard.Stage
	ByShard []ShardCounts
	Queues  []queue.State // of the stages, in their order
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
			out.Queues = append(out.Queues, v)
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

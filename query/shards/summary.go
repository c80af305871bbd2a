package shards

import (
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// StatusCounts are numbers of items by status.
type StatusCounts struct {
	New     int64 `json:"new"`
	Started int64 `json:"started"`
	Done    int64 `json:"done"`
	Failed  int64 `json:"failed"`
}

// ShardCounts are the numbers of one shard over all files.
type ShardCounts struct {
	Shard  int32 `json:"shard"`
	Total  int64 `json:"total"`
	Done   int64 `json:"done" doc:"At mysql-sender"`
	Failed int64 `json:"failed" doc:"At mysql-sender"`
}

// QueueState is what stands in a queue.
type QueueState struct {
	Depth       int64   `json:"depth" doc:"Items that can be taken now"`
	OldestAgeS  float64 `json:"oldest_age_s" doc:"Seconds since the one that has stood in the queue longest came into it; 0 in an empty queue"`
	Delayed     int64   `json:"delayed" doc:"Items that can be taken later"`
	Dead        int64   `json:"dead" doc:"Failed items without attempts left, or cancelled"`
	Paused      bool    `json:"paused"`
	Concurrency int     `json:"concurrency" doc:"Items started at a time at most; 0: any number"`
	MaxAttempts int     `json:"max_attempts" doc:"Attempts after which an item is dead; 0: any number"`
}

// Summary is the answer of GET /metrics/summary.
type Summary struct {
	Total   int64                   `json:"total" doc:"Items"`
	ByStage map[string]StatusCounts `json:"by_stage" doc:"By the stage's column: shard_worker"`
	ByShard []ShardCounts           `json:"by_shard"`
	Queues  map[string]QueueState   `json:"queues" doc:"By the stage's column"`
}

func summaryOf(s tracking.Summary) Summary {
	out := Summary{
		Total: s.Total, ByStage: map[string]StatusCounts{}, ByShard: make([]ShardCounts, 0, len(s.ByShard)),
		Queues: map[string]QueueState{},
	}
	for i, n := range s.ByStage {
		out.ByStage[shard.Stage(i).Column()] = StatusCounts{
			n[item.New], n[item.Started], n[item.Done],
			n[item.Failed],
		}
	}
	for _, v := range s.ByShard {
		out.ByShard = append(out.ByShard, ShardCounts(v))
	}
	for _, q := range s.Queues {
		out.Queues[shard.Stage(q.ID).Column()] = QueueState{
			Depth: q.Depth, OldestAgeS: q.OldestAge.Seconds(), Delayed: q.Delayed, Dead: q.Dead,
			Paused: q.Paused, Concurrency: q.Concurrency, MaxAttempts: q.MaxAttempts,
		}
	}
	return out
}

package tracking

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/shard"
)

// Counts are numbers of items by status.
type Counts [4]int64 // by shard.Status

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
	oldest, err := s.oldest.get(ctx, s)
	if err != nil {
		return Summary{}, err
	}
	settings, err := s.Stages(ctx)
	if err != nil {
		return Summary{}, err
	}
	var out Summary
	for _, v := range settings {
		out.Queues = append(out.Queues, QueueState{StageSettings: v, Oldest: oldest[v.Stage]})
	}
	rows, err := s.pool.Query(ctx, "SELECT kind, key, sum(n)::bigint FROM ("+sqlSums+") AS t GROUP BY kind, key ORDER BY key, kind")
	if err != nil {
		return out, fmt.Errorf("sum counters: %w", err)
	}
	var kind int16
	var key int32
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &key, &n}, func() error {
		out.add(kind, key, n)
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("sum counters: %w", err)
	}
	return out, nil
}

// add files one counter. They come by key.
func (v *Summary) add(kind int16, key int32, n int64) {
	if kind >= kindTotal {
		v.addShard(kind, key, n)
		return
	}
	stage, what := kind/10, kind%10
	if stage > int16(shard.Sender) {
		return
	}
	switch {
	case what < 4:
		v.ByStage[stage][what] = n
		if stage == int16(shard.EventIngest) {
			v.Total += n
		}
	default:
		for i := range v.Queues {
			if q := &v.Queues[i]; q.Stage == shard.Stage(stage) {
				*[...]*int64{&q.Depth, &q.Delayed, &q.Dead}[what-4] = n
			}
		}
	}
}

func (v *Summary) addShard(kind int16, key int32, n int64) {
	last := len(v.ByShard) - 1
	if last < 0 || v.ByShard[last].Shard != key {
		if n == 0 {
			return // all of the shard's files were purged
		}
		v.ByShard = append(v.ByShard, ShardCounts{Shard: key})
		last++
	}
	switch kind {
	case kindTotal:
		v.ByShard[last].Total = n
	case kindDone:
		v.ByShard[last].Done = n
	case kindFailed:
		v.ByShard[last].Failed = n
	}
}

// ages keeps since when the oldest item of each queue stands there. Asking
// reads the whole of ready, so it is done rarely, and more so when it is long.
type ages struct {
	turn  chan struct{} // held by who asks
	until time.Time
	since [4]time.Time // by shard.Stage
}

const agesFor = 2 * time.Second

func (a *ages) get(ctx context.Context, s *Store) ([4]time.Time, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return a.since, ctx.Err()
	}
	start := time.Now()
	if start.Before(a.until) {
		return a.since, nil
	}
	rows, err := s.pool.Query(ctx, "SELECT stage, min(since) FROM millrace.ready GROUP BY stage")
	if err != nil {
		return a.since, fmt.Errorf("read the ages of queues: %w", err)
	}
	var since [4]time.Time
	var stage int16
	var at time.Time
	if _, err = pgx.ForEachRow(rows, []any{&stage, &at}, func() error { since[stage] = at; return nil }); err != nil {
		return a.since, fmt.Errorf("read the ages of queues: %w", err)
	}
	a.since, a.until = since, time.Now().Add(max(agesFor, 20*time.Since(start)))
	return since, nil
}

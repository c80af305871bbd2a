package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/item"
)

// Counts are numbers of items by status.
type Counts [4]int64 // by item.Status

// State is a queue in numbers.
type State struct {
	Settings
	Counts
	Depth   int64 // items that can be taken now
	Delayed int64 // items that can be taken later
	Dead    int64 // failed with no attempt left, or cancelled
	// Cancelled is how many of the dead were cancelled, where their kind tells.
	Cancelled int64
	// Oldest is since when the item that has been in the queue longest is there;
	// zero in an empty queue. It is some seconds old.
	Oldest time.Time
}

// Summary returns all queues in numbers of one moment, and calls other with
// every counter that is not of a queue with settings. What it costs does not
// depend on the number of items.
func (s *Store) Summary(ctx context.Context, other func(kind, key int32, n int64)) ([]State, error) {
	oldest, err := s.oldest.get(ctx, s)
	if err != nil {
		return nil, err
	}
	all, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	states := make([]State, len(all))
	places := make(map[int32]*State, len(all))
	for i, v := range all {
		states[i] = State{Settings: v, Oldest: oldest[v.ID]}
		places[int32(v.ID)] = &states[i]
	}
	err = s.Sums(ctx, func(kind, key int32, n int64) {
		if v := places[kind/10]; v != nil && (kind < ForKinds || kind >= 10*int32(FirstOwn)) {
			v.add(kind%10, n)
		} else {
			other(kind, key, n)
		}
	})
	return states, err
}

func (v *State) add(what int32, n int64) {
	switch what {
	case countReady:
		v.Depth = n
	case countDelayed:
		v.Delayed = n
	case countDead:
		v.Dead = n
	case countCancelled:
		v.Cancelled = n
	default:
		if what <= int32(item.Failed) {
			v.Counts[what] = n
		}
	}
}

// ages keeps since when the oldest item of each queue is there. Asking reads
// the whole of ready, so it is done rarely, and more so when it is long.
type ages struct {
	turn  chan struct{} // held by who asks
	until time.Time
	since map[ID]time.Time
}

const agesFor = 2 * time.Second

func (a *ages) get(ctx context.Context, s *Store) (map[ID]time.Time, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	start := time.Now()
	if start.Before(a.until) {
		return a.since, nil
	}
	rows, err := s.pool.Query(ctx, "SELECT stage, min(since) FROM millrace.ready GROUP BY stage")
	if err != nil {
		return nil, fmt.Errorf("read the ages of queues: %w", err)
	}
	since := map[ID]time.Time{}
	var q ID
	var at time.Time
	if _, err = pgx.ForEachRow(rows, []any{&q, &at}, func() error { since[q] = at; return nil }); err != nil {
		return nil, fmt.Errorf("read the ages of queues: %w", err)
	}
	a.since, a.until = since, time.Now().Add(max(agesFor, 20*time.Since(start)))
	return since, nil
}

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
	// Oldest is since when the item that can be taken and has been in the queue longest is
	// there, by Postgres's clock; zero in an empty queue. It is some seconds old.
	Oldest time.Time
	// OldestAge is for how long that item has been there, by Postgres's clock, whatever
	// this process's clock says; 0 in an empty queue.
	OldestAge time.Duration
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
		states[i] = State{Settings: v}
		places[int32(v.ID)] = &states[i]
	}
	err = s.Sums(ctx, func(kind, key int32, n int64) {
		if v := places[kind/10]; v != nil && (kind < ForKinds || kind >= 10*int32(FirstOwn)) {
			v.add(kind%10, n)
		} else {
			other(kind, key, n)
		}
	})
	for i := range states {
		if v := &states[i]; v.Depth > 0 {
			v.Oldest, v.OldestAge = oldest.of(v.ID)
		}
	}
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
	known knownAges
}

// knownAges is since when the oldest item of each queue is there.
type knownAges struct {
	since map[ID]time.Time // by Postgres's clock
	at    time.Time        // when they were read, by Postgres's clock
	read  time.Time        // the same moment by this process's clock
}

// of returns since when the oldest item of a queue is there, and for how long; zero: the queue was empty.
func (k knownAges) of(q ID) (time.Time, time.Duration) {
	since, there := k.since[q]
	if !there {
		return time.Time{}, 0
	}
	return since, max(0, k.at.Sub(since)+time.Since(k.read))
}

const agesFor = 2 * time.Second

func (a *ages) get(ctx context.Context, s *Store) (knownAges, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return knownAges{}, ctx.Err()
	}
	start := time.Now()
	if start.Before(a.until) {
		return a.known, nil
	}
	rows, err := s.pool.Query(ctx, "SELECT stage, min(since), statement_timestamp() FROM millrace.ready GROUP BY stage")
	if err != nil {
		return knownAges{}, fmt.Errorf("read the ages of queues: %w", err)
	}
	known := knownAges{since: map[ID]time.Time{}, read: start}
	var q ID
	var since time.Time
	_, err = pgx.ForEachRow(rows, []any{&q, &since, &known.at}, func() error { known.since[q] = since; return nil })
	if err != nil {
		return knownAges{}, fmt.Errorf("read the ages of queues: %w", err)
	}
	a.known, a.until = known, time.Now().Add(max(agesFor, 20*time.Since(start)))
	return known, nil
}

package tracking

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/shard"
)

// StartNamed starts items that the caller names, as Apply does, once the other
// queue has let go of them: an item that it has handed out already is
// answered as started. With such a queue there is a transaction for each few
// items: one that was let go of and is not started soon counts as forgotten by
// the queue, which hands it out again. After an error some may be started.
func (s *Store) StartNamed(ctx context.Context, stage shard.Stage, commands []Command) ([]Result, error) {
	if s.cfg.Queue == nil {
		return s.Apply(ctx, stage, shard.Start, commands)
	}
	results := make([]Result, 0, len(commands))
	for part := range slices.Chunk(commands, maxNamed) {
		started, err := s.startNamed(ctx, stage, part)
		if err != nil {
			return nil, err
		}
		results = append(results, started...)
	}
	return results, nil
}

func (s *Store) startNamed(ctx context.Context, stage shard.Stage, commands []Command) ([]Result, error) {
	rows, err := s.look(ctx, stage, commands)
	if err != nil {
		return nil, fmt.Errorf("start %d items at %s: %w", len(commands), stage, err)
	}
	find := (&work{rows: rows}).finder(commands)
	free, places := commands[:0:0], []int{}
	results := make([]Result, len(commands))
	for i, c := range commands {
		r := find(c)
		if r != nil && r.item.Status == shard.New && r.prev == shard.Done && (c.Generation == 0 || c.Generation == r.item.Generation) {
			ok, err := s.cfg.Queue.Withdraw(ctx, stage, r.id, r.item.Generation)
			if err != nil {
				return nil, fmt.Errorf("start %s/%d at %s: %w", r.filename, r.shard, stage, err)
			}
			if !ok {
				results[i] = r.result(shard.Forbidden)
				results[i].Status = shard.Started
				continue
			}
			c.Generation = r.item.Generation // not one that is handed out meanwhile
		}
		free, places = append(free, c), append(places, i)
	}
	applied, err := s.Apply(ctx, stage, shard.Start, free)
	for i, r := range applied {
		results[places[i]] = r
	}
	return results, err
}

// look reads rows without locking them.
func (s *Store) look(ctx context.Context, stage shard.Stage, commands []Command) ([]row, error) {
	var rows []row
	var b pgx.Batch
	selectCommands(&b, &rows, stage, commands, "")
	return rows, s.pool.SendBatch(ctx, &b).Close()
}

// Look returns items as they are now, with the outcome Repeated, or NotFound.
func (s *Store) Look(ctx context.Context, stage shard.Stage, commands []Command) ([]Result, error) {
	rows, err := s.look(ctx, stage, commands)
	if err != nil {
		return nil, fmt.Errorf("look at %d items at %s: %w", len(commands), stage, err)
	}
	find := (&work{rows: rows}).finder(commands)
	results := make([]Result, len(commands))
	for i, c := range commands {
		if r := find(c); r != nil {
			results[i] = r.result(shard.Repeated)
		} else {
			results[i] = Result{ID: c.ID, Filename: c.Filename, Shard: c.Shard, Outcome: shard.NotFound}
		}
	}
	return results, nil
}

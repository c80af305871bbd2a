package tracking

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Take starts up to limit items that are ready for a stage, those of the files
// with the highest priority first, then the oldest, and returns them. Nobody
// else gets them until they are given back or the lease ends.
func (s *Store) Take(ctx context.Context, stage shard.Stage, worker string, limit int, lease time.Duration) ([]Result, error) {
	if !stage.HasQueue() || limit <= 0 {
		return nil, errMove
	}
	if s.cfg.Queue != nil {
		return s.takeHanded(ctx, stage, worker, limit, lease)
	}
	var taken []Result
	err := s.transact(ctx, fmt.Sprintf("take %d items at %s", limit, stage), func(t *tx) error {
		w := s.newWork(t, stage, shard.Start)
		w.inReady = true
		collect(t.batch, &w.rows, stages[stage].take, int16(stage), limit)
		if err := w.read(ctx); err != nil {
			return err
		}
		commands := make([]Command, len(w.rows))
		for i, r := range w.rows {
			commands[i] = Command{ID: r.id, Worker: worker, Lease: lease}
		}
		if len(commands) == 0 {
			return nil
		}
		results, err := w.decide(ctx, commands)
		taken = changedOnly(results)
		w.write()
		return err
	})
	return taken, err
}

// takeHanded takes what the queue beside Postgres hands out. That hands out in
// the order in which items became ready, so those of files with a priority are
// asked for by name before.
func (s *Store) takeHanded(ctx context.Context, stage shard.Stage, worker string, limit int, lease time.Duration) ([]Result, error) {
	first, err := s.takeUrgent(ctx, stage, worker, min(limit, maxNamed), lease)
	if err != nil || len(first) == limit {
		return first, err
	}
	rest, err := s.pull(ctx, stage, worker, limit-len(first), lease)
	if len(first) > 0 {
		err = nil // what was taken has to be told; the rest comes with the next take
	}
	return append(first, rest...), err
}

// maxNamed bounds how many items are asked for by name at a time, each of which
// costs some milliseconds.
const maxNamed = 50

// takeUrgent takes ready items of files with a priority.
func (s *Store) takeUrgent(ctx context.Context, stage shard.Stage, worker string, limit int, lease time.Duration) ([]Result, error) {
	what := fmt.Sprintf("take %d urgent items at %s", limit, stage)
	rows, err := s.pool.Query(ctx, text("urgent"), int16(stage), limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	commands, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Command, error) {
		c := Command{Worker: worker, Lease: lease}
		return c, r.Scan(&c.ID, &c.Generation)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	results, err := s.StartNamed(ctx, stage, commands)
	return changedOnly(results), err
}

// pull takes what is handed out next.
func (s *Store) pull(ctx context.Context, stage shard.Stage, worker string, limit int, lease time.Duration) ([]Result, error) {
	handed, settle, err := s.cfg.Queue.Pull(ctx, stage, limit)
	if err != nil {
		return nil, fmt.Errorf("take %d items at %s: %w", limit, stage, err)
	}
	forget := make([]bool, len(handed))
	defer func() { settle(forget) }()
	if len(handed) == 0 {
		return nil, nil
	}
	commands := make([]Command, len(handed))
	for i, h := range handed {
		commands[i] = Command{ID: h.ID, Generation: h.Generation, Worker: worker, Lease: lease}
	}
	results, err := s.StartHanded(ctx, stage, stream.PlainWorker, commands)
	for i, r := range results {
		forget[i] = r.Outcome != shard.Paused && r.Outcome != shard.Full
	}
	return changedOnly(results), err
}

func changedOnly(results []Result) []Result {
	var changed []Result
	for _, r := range results {
		if r.Outcome == shard.Changed {
			changed = append(changed, r)
		}
	}
	return changed
}

// Extend moves the ends of leases to Lease from now on, each for the one who
// has the item: by generation, or by name where none is given. It says of each
// whether it was moved.
func (s *Store) Extend(ctx context.Context, stage shard.Stage, commands []Command) ([]bool, error) {
	n := len(commands)
	ids, names, shards := make([]int64, n), make([]string, n), make([]int32, n)
	generations, workers, leases := make([]int32, n), make([]string, n), make([]int64, n)
	for i, c := range commands {
		ids[i], names[i], shards[i] = c.ID, c.Filename, c.Shard
		generations[i], workers[i], leases[i] = c.Generation, c.Worker, c.Lease.Milliseconds()
	}
	rows, err := s.pool.Query(ctx, sqlExtend[stage], int16(stage), ids, names, shards, generations, workers, leases)
	if err != nil {
		return nil, fmt.Errorf("extend %d leases at %s: %w", n, stage, err)
	}
	defer rows.Close()
	extended := make([]bool, n)
	for rows.Next() {
		var place int
		if err := rows.Scan(&place); err != nil {
			return nil, fmt.Errorf("extend leases at %s: %w", stage, err)
		}
		extended[place-1] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("extend %d leases at %s: %w", n, stage, err)
	}
	return extended, nil
}

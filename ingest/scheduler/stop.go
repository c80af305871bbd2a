package scheduler

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/job"
)

// stopsAtOnce is how many stopped jobs one transaction handles.
const stopsAtOnce = 500

// Stop cancels the runs that no worker has, of jobs that have been paused, orphaned or
// deleted, in one transaction (6). It tells whether there may be more.
func (s *Scheduler) Stop(ctx context.Context) (more bool, err error) {
	err = s.queues.Queues().Transact(ctx, "cancel the runs of stopped jobs", func(t *queue.Tx) error {
		ids, taken, err := takeStops(ctx, t)
		if more = taken == stopsAtOnce; err != nil || len(ids) == 0 {
			return err
		}
		why, err := stopped(ctx, t, ids)
		if err != nil {
			return err
		}
		return cancelQueued(ctx, t, why)
	})
	return more && err == nil, err
}

// takeStops takes the oldest stops, of which a job may have several, and returns how many
// they were.
func takeStops(ctx context.Context, t *queue.Tx) (ids []uuid.UUID, taken int, err error) {
	t.Batch.Queue(text("stops"), stopsAtOnce).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&id, &taken}, func() error {
			ids = append(ids, id)
			return nil
		})
		return err
	})
	return ids, taken, t.Flush(ctx)
}

// stopped locks jobs, and returns why those do not run that are still stopped. Until the
// transaction ends, nobody resumes them, and no scheduler begins runs of them.
func stopped(ctx context.Context, t *queue.Tx, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	why := make(map[uuid.UUID]string, len(ids))
	for _, id := range ids {
		why[id] = "the job was deleted with its source"
	}
	const lock = "SELECT id, status, coalesce(paused_by, '') FROM millrace.job_status WHERE id = ANY ($1) " +
		"ORDER BY id FOR UPDATE"
	t.Batch.Queue(lock, ids).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var status, by string
		_, err := pgx.ForEachRow(rows, []any{&id, &status, &by}, func() error {
			switch {
			case status == job.Orphaned:
				why[id] = "the source of the job does not exist"
			case status == job.Paused && by == job.BySource:
				why[id] = "the source of the job was disabled"
			case status == job.Paused:
				why[id] = "the job was paused"
			default:
				delete(why, id)
			}
			return nil
		})
		return err
	})
	return why, t.Flush(ctx)
}

// cancelQueued cancels the runs of jobs that no worker has, and says why, also in the ledger.
func cancelQueued(ctx context.Context, t *queue.Tx, why map[uuid.UUID]string) error {
	if len(why) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, 0, len(why))
	for id := range why {
		ids = append(ids, id)
	}
	var commands []queue.Command
	runs := map[int64]uuid.UUID{} // by their items
	t.Batch.Queue(text("stopped_runs"), ids).Query(func(rows pgx.Rows) error {
		var run, of uuid.UUID
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&run, &of, &id}, func() error {
			runs[id] = run
			commands = append(commands, queue.Command{ID: id, Worker: "scheduler", Error: why[of]})
			return nil
		})
		return err
	})
	if err := t.Flush(ctx); err != nil {
		return err
	}
	results, err := cancel(ctx, t, commands, " AND t.status = 'new'")
	if err != nil {
		return err
	}
	var cancelled []uuid.UUID
	var reasons []string
	for i, r := range results {
		if r.Outcome == item.Changed {
			cancelled = append(cancelled, runs[commands[i].ID])
			reasons = append(reasons, "its run was cancelled before a worker took it: "+commands[i].Error)
		}
	}
	if len(cancelled) > 0 {
		t.Batch.Queue(text("explain"), cancelled, reasons)
	}
	return nil
}

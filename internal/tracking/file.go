package tracking

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Cancel fails for good whatever a file has under way or in a queue, and lets
// no further shards be registered. Items that are done stay so. It returns how
// many it failed; cancelling again fails none.
func (s *Store) Cancel(ctx context.Context, file, by string) (cancelled int, err error) {
	err = s.queues.Transact(ctx, "cancel "+file, func(t *queue.Tx) error {
		cancelled = 0
		if err := lockFileRow(ctx, t, file); err != nil {
			return err
		}
		t.Batch.Queue("UPDATE millrace.file SET cancelled_at = coalesce(cancelled_at, now()) WHERE filename = $1", file)
		for stage := shard.EventIngest; stage <= shard.Sender; stage++ {
			w, items, err := lockFile(ctx, t, stage, item.Cancel, file)
			if err != nil {
				return err
			}
			var commands []queue.Command
			for _, r := range items {
				if r.Status == item.Started || r.Status == item.New && r.Queued {
					commands = append(commands, queue.Command{ID: r.ID, Worker: by, Error: "the file was cancelled"})
				}
			}
			if _, err := w.Apply(ctx, commands); err != nil {
				return err
			}
			cancelled += w.Changed()
		}
		return nil
	})
	return cancelled, err
}

// lockFileRow locks the row of a file, so that no shards are added to it.
func lockFileRow(ctx context.Context, t *queue.Tx, file string) error {
	found := false
	t.Batch.Queue("SELECT true FROM millrace.file WHERE filename = $1 FOR UPDATE",
		file).Query(func(rows pgx.Rows) error {
		found = rows.Next()
		return rows.Err()
	})
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if !found {
		return ErrNoFile
	}
	return nil
}

// SetPriority changes the priority, 0 to 9, of all of a file's items, those in
// queues too.
func (s *Store) SetPriority(ctx context.Context, file string, priority int16) error {
	return s.queues.Transact(ctx, "set the priority of "+file, func(t *queue.Tx) error {
		if err := lockFileRow(ctx, t, file); err != nil {
			return err
		}
		_, items, err := lockFile(ctx, t, shard.EventIngest, item.Register, file)
		if err != nil {
			return err
		}
		ids, old := make([]int64, len(items)), make([]int16, len(items))
		for i, r := range items {
			ids[i], old[i] = r.ID, r.Priority
		}
		t.Batch.Queue("UPDATE millrace.file SET priority = $2 WHERE filename = $1", file, priority)
		t.Batch.Queue("UPDATE millrace.pipeline_tracking SET priority = $2 WHERE id = ANY ($1::bigint[])",
			ids, priority)
		for _, stage := range shard.Queues {
			for _, table := range []string{"ready", "outbox"} {
				t.Batch.Queue(`UPDATE millrace.`+table+` AS r SET priority = $4
					FROM unnest($2::bigint[], $3::smallint[]) AS u (id, priority)
					WHERE r.stage = $1 AND r.priority = u.priority
					AND r.item_id = u.id`, int16(stage), ids, old, priority)
			}
		}
		return nil
	})
}

// Announced returns those items of a file at a stage that are ready and have a
// message on the stream, or will have one at once.
func (s *Store) Announced(ctx context.Context, stage shard.Stage, file string) ([]queue.Ref, error) {
	rows, _ := s.pool.Query(ctx, text("announced"), int16(stage), file)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (v queue.Ref, err error) {
		return v, r.Scan(&v.Item, &v.Queue, &v.Generation)
	}, "read what of %s is announced at %s", file, stage)
}

// FailedFilter selects failed items. Zero values do not filter.
type FailedFilter struct {
	Stage    shard.Stage // required
	Filename string      // of this file
	Prefix   string      // of files whose names begin so
	Error    string      // whose last error contains this
	Before   time.Time   // that failed before
	Dead     bool        // dead items too
	Limit    int
}

// RetryFailed gives failed items back to their queue, up to the limit, the
// longest failed first. It returns how many.
func (s *Store) RetryFailed(ctx context.Context, f FailedFilter, delay time.Duration) (int, error) {
	ids, err := s.failed(ctx, f)
	if err != nil {
		return 0, fmt.Errorf("find failed items at %s: %w", f.Stage, err)
	}
	total := 0
	for len(ids) > 0 {
		n := min(len(ids), retryLimit)
		commands := make([]queue.Command, n)
		for i, id := range ids[:n] {
			commands[i] = queue.Command{ID: id, Delay: delay}
		}
		results, err := s.Apply(ctx, f.Stage, item.Retry, commands)
		if err != nil {
			return total, err
		}
		for _, r := range results {
			if r.Outcome == item.Changed {
				total++
			}
		}
		ids = ids[n:]
	}
	return total, nil
}

func (s *Store) failed(ctx context.Context, f FailedFilter) ([]int64, error) {
	before := f.Before
	if before.IsZero() {
		before = time.Now().Add(24 * time.Hour) // the clocks of two machines
	}
	rows, _ := s.pool.Query(ctx, `SELECT f.item_id FROM millrace.failed AS f
		JOIN millrace.pipeline_tracking AS t ON t.id = f.item_id
		WHERE f.stage = $1 AND ($2 OR NOT f.dead) AND f.failed_at < $3
			AND ($4 = '' OR t.filename = $4) AND starts_with(t.filename, $5)
			AND ($6 = '' OR strpos(t.`+f.Stage.Column()+`_error, $6) > 0)
		ORDER BY f.failed_at, f.item_id LIMIT $7`,
		int16(f.Stage), f.Dead, before, f.Filename, f.Prefix, f.Error, f.Limit)
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// Selection selects failed items at a stage, of files that are not cancelled. Zero
// values do not filter.
type Selection struct {
	Stage    shard.Stage // required
	Filename string      // of this file
	Search   string      // of files whose names contain this
	Dead     *bool       // only those that are dead, or are not
	Limit    int         // items at most; 0: all
}

// CancelledAt returns when a file was cancelled; nil: it was not. The error is
// ErrNoFile when it was not registered.
func (s *Store) CancelledAt(ctx context.Context, file string) (at *time.Time, err error) {
	err = s.pool.QueryRow(ctx, "SELECT cancelled_at FROM millrace.file WHERE filename = $1", file).Scan(&at)
	return at, dbpool.Found(err, ErrNoFile, "look for %s", file)
}

// Each calls each with every item that is selected, in the order of their ids,
// until it returns an error.
func (s *Store) Each(ctx context.Context, f Selection, each func(queue.Member) error) error {
	col := f.Stage.Column()
	rows, err := s.pool.Query(ctx, `SELECT t.id, f.stage, t.`+col+`_generation,
		coalesce(t.`+col+`_error, ''), f.failed_at
		FROM millrace.failed AS f JOIN millrace.pipeline_tracking AS t ON t.id = f.item_id
		JOIN millrace.file AS n ON n.filename = t.filename
		WHERE f.stage = $1 AND ($2::boolean IS NULL OR f.dead = $2) AND n.cancelled_at IS NULL
			AND ($3 = '' OR t.filename = $3) AND t.filename LIKE $4
		ORDER BY f.item_id LIMIT nullif($5, 0)`,
		int16(f.Stage), f.Dead, f.Filename, "%"+escapeLike.Replace(f.Search)+"%", f.Limit)
	if err == nil {
		err = queue.EachMember(rows, each)
	}
	if err != nil {
		return fmt.Errorf("select failed items at %s: %w", f.Stage, err)
	}
	return nil
}

// retryLimit is how many items one transaction of RetryFailed moves.
const retryLimit = 1000

// purgeFiles is how many files one transaction of Purge drops.
const purgeFiles = 50

// Purge drops up to limit files that are finished and have not changed since
// before, with their history: files all of whose items are done at the last
// stage, and cancelled ones, of which nothing is under way. It returns how many.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (int, error) {
	total := 0
	for after, more := (purged{}), true; more && total < limit; {
		p, err := s.purge(ctx, before, after, min(purgeFiles, limit-total))
		if err != nil {
			return total, err
		}
		total += p.dropped
		// Behind the part before: files that stay, and those that were dropped a moment ago, are not looked at again.
		after, more = p, p.found > 0
	}
	return total, nil
}

// purged is a part of what is purged: how many files were found and dropped, and the last one.
type purged struct {
	found, dropped int
	created        time.Time
	file           string
}

func (s *Store) purge(ctx context.Context, before time.Time, after purged, limit int) (p purged, err error) {
	err = s.queues.Transact(ctx, "purge files", func(t *queue.Tx) error {
		var files []string
		t.Batch.Queue(text("finished"), before, limit, after.created, after.file).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&p.created, &p.file}, func() error {
				files = append(files, p.file)
				return nil
			})
			return err
		})
		if err := t.Flush(ctx); err != nil {
			return err
		}
		p.found = len(files)
		t.Batch.Queue(
			"SELECT 1 FROM millrace.pipeline_tracking WHERE filename = ANY ($1::text[]) ORDER BY id FOR UPDATE", files,
		)
		t.Batch.Queue(text("purge"), before, files).QueryRow(func(r pgx.Row) error { return r.Scan(&p.dropped) })
		return nil
	})
	return p, err
}

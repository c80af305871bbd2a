package userqueue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/retry"
)

const (
	purgeEvery = 10 * time.Second
	purgeLimit = 1000 // items of one transaction
)

// Run drops finished items that their queues keep no longer until ctx ends. Any
// number of processes may run it on the same database.
func (s *Store) Run(ctx context.Context, log *slog.Logger) error {
	return retry.Every(ctx, purgeEvery, func(ctx context.Context) error {
		n, err := s.Purge(ctx)
		if n > 0 {
			log.Debug("finished items of queues were purged", "items", n)
		}
		return err
	}, retry.Warn(log, "finished items of queues cannot be purged now"))
}

// Purge drops finished items that are older than the retention of their queue, or
// more than it keeps, the oldest first. It returns how many.
func (s *Store) Purge(ctx context.Context) (dropped int, err error) {
	all, err := s.queues.Queues(ctx)
	if err != nil {
		return 0, err
	}
	for _, v := range all {
		if v.ID < queue.FirstOwn {
			continue
		}
		n, err := s.purge(ctx, v)
		if dropped += n; err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

func (s *Store) purge(ctx context.Context, v queue.Settings) (dropped int, err error) {
	// Each part begins behind the last entry of the one before: entries that were dropped stay in the index for as
	// long as an older transaction might read them.
	type entry struct {
		at   time.Time
		item int64
	}
	var after entry
	for seen := purgeLimit; seen == purgeLimit; {
		var gone int
		err := s.queues.Transact(ctx, "purge finished items of "+v.Name, func(t *queue.Tx) error {
			var last entry
			t.Batch.Queue("SET LOCAL enable_bitmapscan = off") // which reads all entries that are left, and sorts them
			t.Batch.Queue(text("purge"), v.ID, purgeLimit, after.at, after.item).
				QueryRow(func(r pgx.Row) error { return r.Scan(&seen, &gone, &last.at, &last.item) })
			t.OnCommit(func() { after = last })
			return nil
		})
		if dropped += gone; err != nil {
			return dropped, err
		}
	}
	_, err = s.queues.Pool().Exec(ctx,
		"DELETE FROM millrace.key_start WHERE stage = $1 AND at < now() - $2 * interval '1 second'",
		v.ID, v.RatePerKey.PerS)
	if err != nil {
		return dropped, fmt.Errorf("forget when items of %s were started: %w", v.Name, err)
	}
	return dropped, s.forgetDomains(ctx, v.ID)
}

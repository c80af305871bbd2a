package tracking

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/shard"
)

// Outbox returns up to limit entries that nobody has announced, the oldest
// first. It reserves nothing: two readers see the same ones.
func (s *Store) Outbox(ctx context.Context, limit int) ([]Entry, error) {
	rows, err := s.pool.Query(ctx, text("outbox"), limit)
	if err == nil {
		var entries []Entry
		entries, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (e Entry, err error) {
			var stage int16
			err = r.Scan(&e.ID, &e.Item, &stage, &e.Generation, &e.Filename, &e.Shard, &e.Priority, &e.Attempts, &e.CreatedAt)
			e.Stage = shard.Stage(stage)
			return e, err
		})
		if err == nil {
			return entries, nil
		}
	}
	return nil, fmt.Errorf("read the outbox: %w", err)
}

// Published deletes entries that have been announced. also, which may be nil,
// writes beside it in the same transaction.
func (s *Store) Published(ctx context.Context, ids []int64, also func(*pgx.Batch)) error {
	return s.transact(ctx, fmt.Sprintf("clear %d entries of the outbox", len(ids)), func(t *tx) error {
		t.batch.Queue("DELETE FROM millrace.outbox WHERE id = ANY ($1::bigint[])", ids)
		if also != nil {
			also(t.batch)
		}
		return nil
	})
}

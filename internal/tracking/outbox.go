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
			err = r.Scan(&e.ID, &e.Item, &stage, &e.Generation, &e.Filename, &e.Shard, &e.Attempts, &e.CreatedAt)
			e.Stage = shard.Stage(stage)
			return e, err
		})
		if err == nil {
			return entries, nil
		}
	}
	return nil, fmt.Errorf("read the outbox: %w", err)
}

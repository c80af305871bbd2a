package sources

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/source"
)

// Filter selects sources. The zero value of a field selects all.
type Filter struct {
	Text     string // a part of the name or of the URL, in any case
	Enabled  *bool
	Priority string
}

const where = `WHERE ($1 = '' OR strpos(lower(name), lower($1)) > 0 OR strpos(lower(url), lower($1)) > 0)
	AND ($2::boolean IS NULL OR enabled = $2) AND ($3 = '' OR priority = $3)`

// List returns up to limit sources that a filter selects, of those that were made
// after another one; the oldest first.
func (s *Store) List(ctx context.Context, f Filter, after uuid.UUID, limit int) ([]source.CrawlSource, error) {
	all, err := read(ctx, s.pool, where+" AND id > $4 ORDER BY id LIMIT $5", f.Text, f.Enabled, f.Priority, after,
		limit)
	if err != nil {
		return nil, fmt.Errorf("list sources: %w", err)
	}
	return all, nil
}

// Count returns how many sources a filter selects.
func (s *Store) Count(ctx context.Context, f Filter) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM millrace.source "+where, f.Text, f.Enabled, f.Priority).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count sources: %w", err)
	}
	return n, nil
}

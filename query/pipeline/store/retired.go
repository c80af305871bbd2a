package store

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// RetiredBefore returns the time before which the events table no longer holds
// every event, zero when it holds all.
func (s *Store) RetiredBefore(ctx context.Context) (before time.Time, err error) {
	err = s.set.Each(ctx, "retired.sql", nil, func(rows driver.Rows) error {
		var month uint32
		if err := rows.Scan(&month); err != nil || month == 0 {
			return err
		}
		before = time.Date(int(month/100), time.Month(month%100)+1, 1, 0, 0, 0, 0, time.UTC)
		return nil
	})
	return before, err
}

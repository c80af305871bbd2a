package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/sampler"
)

// Gauges returns the gauges of what waits in the outboxes of some streams. Any process that
// reaches Postgres can tell, also while nobody publishes.
func Gauges(pool *pgxpool.Pool, streams ...string) sampler.Source {
	oldest := sampler.NewGauge("millrace_outbox_oldest_age_seconds",
		"How long the oldest message has waited in the outbox of a stream; 0 in an empty one.", "stream")
	messages := sampler.NewGauge("millrace_outbox_messages", "Messages that wait in the outbox of a stream.", "stream")
	return sampler.Source{
		Name: "outbox", Gauges: []*sampler.Gauge{oldest, messages},
		Read: func(ctx context.Context, set sampler.Set) error {
			for _, stream := range streams {
				var n int64
				var age float64
				err := pool.QueryRow(ctx, `SELECT count(*),
						coalesce(greatest(extract(epoch FROM clock_timestamp() - min(made_at)), 0), 0)::float8
					FROM millrace.message_outbox WHERE stream = $1`, stream).Scan(&n, &age)
				if err != nil {
					return fmt.Errorf("read what waits in the outbox of %s: %w", stream, err)
				}
				set(messages, float64(n), stream)
				set(oldest, age, stream)
			}
			return nil
		},
	}
}

package uploads

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// Leases has the leases of queues follow how long workers have the items of uploads there. A queue in which no upload is
// worked has the lease that it was given.
func (f *Feeder) Leases(ctx context.Context) error {
	rows, err := f.store.pool.Query(ctx, `SELECT s.stage, s.lease_s, coalesce(s.measured_lease_s, 0), u.no IS NOT NULL,
			coalesce(u.service_ms, 0), coalesce(u.lease_ms, 0)
		FROM millrace.stage AS s LEFT JOIN millrace.upload AS u ON u.processor = s.name
			AND u.queue_state IN ('QUEUED', 'RUNNING') AND u.received_at IS NOT NULL AND u.deleted_at IS NULL
			AND u.cancelled_at IS NULL AND u.pending + u.processing > 0
		WHERE s.followed AND s.stage >= $1 AND s.lease_s IS NOT NULL ORDER BY s.stage`, queue.FirstOwn)
	if err != nil {
		return fmt.Errorf("look at the leases of queues: %w", err)
	}
	var all []*leased
	var q queue.ID
	var set, measured float64
	var works bool
	var mean, least float32
	_, err = pgx.ForEachRow(rows, []any{&q, &set, &measured, &works, &mean, &least}, func() error {
		if len(all) == 0 || all[len(all)-1].queue != q {
			all = append(all, &leased{queue: q, set: set, measured: measured})
		}
		if works {
			last := all[len(all)-1]
			last.held = append(last.held, schema.Held{Mean: milliseconds(mean), Least: milliseconds(least)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look at the leases of queues: %w", err)
	}
	for _, l := range all {
		if err := f.lease(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func milliseconds(ms float32) time.Duration {
	return time.Duration(float64(ms) * float64(time.Millisecond))
}

// leased is a queue that uploads may be worked in.
type leased struct {
	queue         queue.ID
	set, measured float64 // seconds; 0: not measured
	held          []schema.Held
}

// lease notes the lease of a queue, unless it is nearly the same.
func (f *Feeder) lease(ctx context.Context, l *leased) error {
	want := 0.0
	if len(l.held) > 0 {
		want = f.cfg.Locks.Lease(time.Duration(l.set*float64(time.Second)), l.held).Seconds()
	}
	const nearly = 0.1
	if math.Abs(want-l.measured) <= nearly*l.measured {
		return nil
	}
	_, err := f.store.pool.Exec(ctx, "UPDATE millrace.stage SET measured_lease_s = nullif($2::float8, 0) WHERE stage = $1", l.queue, want)
	if err != nil {
		return fmt.Errorf("note the lease of queue %d: %w", l.queue, err)
	}
	return nil
}

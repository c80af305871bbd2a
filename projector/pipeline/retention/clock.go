package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/schemas/stream"
)

// tolerance is how far clocks may be apart before it is told.
const tolerance = time.Hour

// today is what the earliest of three clocks says: that of this process, of the
// broker and of the database. Removing events can't be undone, so that one
// clock that runs ahead must not be enough for it.
func (k *Keeper) today(ctx context.Context) (time.Time, error) {
	s, err := k.js.Stream(ctx, stream.Events)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask stream %s for its time: %w", stream.Events, err)
	}
	var database time.Time
	if err := k.store.each(ctx, "now", nil, func(r driver.Rows) error { return r.Scan(&database) }); err != nil {
		return time.Time{}, err
	}
	own, broker := k.cfg.Now(), s.CachedInfo().TimeStamp
	earliest, latest := own, own
	for _, t := range []time.Time{broker, database} {
		if t.Before(earliest) {
			earliest = t
		}
		if t.After(latest) {
			latest = t
		}
	}
	if latest.Sub(earliest) > tolerance {
		k.log.Warn("clocks disagree, going by the earliest", "own", own.UTC(), "nats", broker.UTC(),
			"clickhouse", database.UTC())
	}
	return earliest, nil
}

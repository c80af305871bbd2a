package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// Config of a Keeper. The zero value of a field stands for its default.
type Config struct {
	// Months is how many whole months of events are kept, beside the month
	// that is under way: at least 2, since views of 30 days are counted from
	// them, or 0 for all of them.
	Months int
	// DailyMonths is how long the daily summaries are kept, in the same way.
	// 0: for ever. The monthly ones always are.
	DailyMonths int
	Topology    schema.Topology
	// Every is how often it looks for months to retire; default 1 h. Rows are
	// counted every minute.
	Every time.Duration
	Now   func() time.Time // default time.Now
}

// Keeper retires old events.
type Keeper struct {
	cfg     Config
	js      jetstream.JetStream
	kv      jetstream.KeyValue // set by Run
	store   store
	log     *slog.Logger
	metrics *metrics
	grace   time.Duration
	// stopAfter is called with the name of each step that is done; an error
	// ends the round. Tests die there.
	stopAfter func(step string) error
}

// New checks the configuration and starts nothing. It closes neither of the
// connections.
func New(
	cfg Config, conn driver.Conn, js jetstream.JetStream, reg prometheus.Registerer, log *slog.Logger,
) (*Keeper, error) {
	if cfg.Months < 0 || cfg.DailyMonths < 0 {
		return nil, errors.New("retention: months must not be negative")
	}
	if cfg.Months == 1 {
		return nil, errors.New("retention: views of 30 days need the events of at least 2 whole months")
	}
	if cfg.DailyMonths > 0 && cfg.DailyMonths < cfg.Months {
		return nil, fmt.Errorf("retention: daily summaries are made after %d months and can't be dropped after %d",
			cfg.Months, cfg.DailyMonths)
	}
	if cfg.Every == 0 {
		cfg.Every = time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	return &Keeper{
		cfg: cfg, js: js, store: store{conn, cfg.Topology, sumAtOnce}, log: log.With("component", "retention"),
		metrics: m, grace: grace,
		stopAfter: func(string) error { return nil },
	}, nil
}

// countEvery is how often the rows of partitions are counted, and a failed round is tried
// again.
const countEvery = time.Minute

// grace is how long committed events stay in the table, for readers that have
// not noticed yet that the views count them elsewhere.
const grace = 10 * time.Minute

// Run retires until ctx ends. A round that fails is tried again a
// minute later.
func (k *Keeper) Run(ctx context.Context) error {
	var due time.Time
	return retry.Every(ctx, countEvery, func(ctx context.Context) error {
		now := time.Now()
		if now.Before(due) {
			return nil
		}
		err := k.Round(ctx)
		switch {
		case err == nil:
			due = now.Add(k.cfg.Every)
		case errors.Is(err, errOvertaken):
			k.log.Info("leaving a month to another process", "reason", err)
			return nil
		case ctx.Err() == nil:
			k.metrics.failures.Inc()
		}
		return err
	}, retry.Warn(k.log, "retention failed, trying again", "retry_in", countEvery))
}

// Round retires every month that is old enough and removes what is retired.
func (k *Keeper) Round(ctx context.Context) (err error) {
	if k.kv == nil {
		if k.kv, err = k.js.KeyValue(ctx, stream.Checkpoints); err != nil {
			return fmt.Errorf("open bucket %s: %w", stream.Checkpoints, err)
		}
	}
	today, err := k.today(ctx)
	if err != nil {
		return err
	}
	if k.cfg.Months > 0 {
		if err := k.retireAll(ctx, monthOf(today).add(-k.cfg.Months)); err != nil {
			return err
		}
	}
	if err := k.removeAll(ctx); err != nil {
		return err
	}
	if k.cfg.DailyMonths > 0 {
		return k.dropDays(ctx, monthOf(today).add(-k.cfg.DailyMonths))
	}
	return nil
}

// retireAll retires the months before a limit.
func (k *Keeper) retireAll(ctx context.Context, limit month) error {
	durable, err := k.durable(ctx)
	if err != nil {
		return err
	}
	all, err := k.store.partitions(ctx, "events")
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.month >= limit {
			continue
		}
		if err := k.retire(ctx, p.month, durable); err != nil {
			return fmt.Errorf("retire %d: %w", p.month, err)
		}
	}
	return nil
}

// removeAll removes events of retirements that were committed a while ago.
func (k *Keeper) removeAll(ctx context.Context) error {
	retired, err := k.store.retired(ctx, k.grace)
	if err != nil || len(retired) == 0 {
		return err
	}
	all, err := k.store.partitions(ctx, "events")
	if err != nil {
		return err
	}
	for _, p := range all {
		upto, ok := retired[p.month]
		if !ok {
			continue
		}
		if err := k.store.remove(ctx, p.month, upto); err != nil {
			return err
		}
	}
	return k.stopAfter("remove")
}

func (k *Keeper) dropDays(ctx context.Context, limit month) error {
	all, err := k.store.partitions(ctx, "events_daily")
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.month >= limit {
			continue
		}
		if err := k.store.dropDaily(ctx, p.month); err != nil {
			return err
		}
		k.log.Info("daily summaries dropped", "month", p.month, "rows", p.rows)
	}
	return nil
}

package retention

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"
	"github.com/millrace-io/millrace/internal/sampler"
)

type metrics struct {
	retired  prometheus.Counter
	failures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		retired: metric.Counter("millrace_retention_events_total",
			"Events that this process has summed up and retired."),
		failures: metric.Counter("millrace_retention_failures_total", "Rounds of retention that failed."),
	}
	return m, metric.Register(reg, m.retired, m.failures)
}

// Rows returns the gauge of how many rows each partition has. A partition that is gone has
// none.
func (k *Keeper) Rows() sampler.Source {
	rows := sampler.NewGauge("pipeline_events_row_count",
		"Rows of the events table, by partition (the month of occurred_at, yyyymm).", "partition")
	return sampler.Source{
		Name: "partitions", Gauges: []*sampler.Gauge{rows}, Every: countEvery,
		Read: func(ctx context.Context, set sampler.Set) error {
			all, err := k.store.partitions(ctx, "events")
			for _, p := range all {
				set(rows, float64(p.rows), fmt.Sprint(uint32(p.month)))
			}
			return err
		},
	}
}

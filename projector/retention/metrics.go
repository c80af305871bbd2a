package retention

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	rows     *prometheus.GaugeVec
	retired  prometheus.Counter
	failures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		rows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pipeline_events_row_count",
			Help: "Rows of the events table, by partition (the month of occurred_at, yyyymm).",
		}, []string{"partition"}),
		retired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "millrace_retention_events_total",
			Help: "Events that this process has summed up and retired.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "millrace_retention_failures_total",
			Help: "Rounds of retention that failed.",
		}),
	}
	for _, c := range []prometheus.Collector{m.rows, m.retired, m.failures} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register retention metrics: %w", err)
		}
	}
	return m, nil
}

// set replaces the numbers: a partition that is gone has none.
func (m *metrics) set(all []partition) {
	m.rows.Reset()
	for _, p := range all {
		m.rows.WithLabelValues(fmt.Sprint(uint32(p.month))).Set(float64(p.rows))
	}
}

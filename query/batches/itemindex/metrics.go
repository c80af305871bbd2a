package itemindex

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"
)

type metrics struct {
	inUse, position, outcomes, bytes prometheus.Gauge
	rebuilds                         prometheus.Counter
	lookups                          *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return metric.Gauge("millrace_batches_index_"+name, help)
	}
	m := &metrics{
		inUse:    gauge("in_use", "Whether the index of items is in use: it is not while it is made."),
		position: gauge("position", "Sequence of BATCHES_READ up to which the index of items has every outcome."),
		outcomes: gauge("outcomes", "Outcomes in the index of items."),
		bytes:    gauge("disk_bytes", "Disk that the index of items takes."),
		rebuilds: metric.Counter("millrace_batches_index_rebuilds_total",
			"Times that the index of items was removed, to be made again: it was damaged, or rows of ClickHouse were "+
				"changed."),
		lookups: metric.Counters("millrace_batches_index_lookups_total",
			"Items that were looked up, by what has answered: index or clickhouse.", "answered"),
	}
	for _, by := range []string{"index", "clickhouse"} {
		m.lookups.WithLabelValues(by)
	}
	return m, metric.Register(r, m.inUse, m.position, m.outcomes, m.bytes, m.rebuilds, m.lookups)
}

func (m *metrics) asked(answered bool) {
	by := "clickhouse"
	if answered {
		by = "index"
	}
	m.lookups.WithLabelValues(by).Inc()
}

func (m *metrics) use(s *store) {
	if s == nil {
		m.inUse.Set(0)
		return
	}
	m.inUse.Set(1)
	m.state(s)
}

func (m *metrics) state(s *store) {
	m.position.Set(float64(s.state.Applied))
	m.outcomes.Set(float64(s.state.Outcomes))
	m.bytes.Set(float64(s.size()))
}

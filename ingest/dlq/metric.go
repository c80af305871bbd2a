package dlq

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/scrape"
)

// gauge counts the letters when it is scraped. While NATS does not answer there is no
// value after a while: an old one would look like a true one.
type gauge struct {
	desc  *prometheus.Desc
	count *scrape.Value[uint64]
}

// NewGauge returns the metric millrace_dlq_messages.
func NewGauge(s *Service) prometheus.Collector {
	count := func(ctx context.Context) (uint64, error) {
		st, err := s.stream(ctx)
		if err != nil {
			return 0, err
		}
		return st.CachedInfo().State.Msgs, nil
	}
	return &gauge{
		desc: prometheus.NewDesc("millrace_dlq_messages", "Dead letters in the DLQ stream.", nil, nil),
		count: &scrape.Value[uint64]{
			Ask: count, Limit: 2 * time.Second, Fresh: 5 * time.Second, Keep: 30 * time.Second,
			Now: func() time.Time { return s.now() },
		},
	}
}

// Describe implements prometheus.Collector.
func (g *gauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g *gauge) Collect(ch chan<- prometheus.Metric) {
	if n, known := g.count.Get(); known {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n))
	}
}

package enrichment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/millrace-io/millrace/internal/metric"
	"github.com/millrace-io/millrace/internal/sampler"
)

type metrics struct {
	items    *prometheus.CounterVec
	requests *prometheus.HistogramVec
	open     prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		items: metric.Counters("millrace_enrichment_items_total",
			"Items that are enriched: success, or error where they could not be analysed.", "status"),
		requests: metric.Histograms("millrace_enrichment_request_duration_seconds",
			"Requests to the analyser: answered, wrong (the answer breaks a rule), silent (not in time) or away (nobody "+
				"listens). While the circuit breaker is open there are none.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "result"),
		open: metric.Gauge("millrace_enrichment_circuit_open",
			"Whether the analyser is not asked for a while, since it does not answer."),
	}
	for _, status := range []string{"success", "error"} {
		m.items.WithLabelValues(status)
	}
	return m, metric.Register(r, m.items, m.requests, m.open)
}

func (m *metrics) stored(found []analysis) {
	for n := range found {
		status := "success"
		if found[n].Error != "" {
			status = "error"
		}
		m.items.WithLabelValues(status).Inc()
	}
}

func (m *metrics) asked(err error, took time.Duration) {
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return // nobody was asked
	}
	result := "away"
	switch {
	case err == nil:
		result = "answered"
	case errors.Is(err, errReply):
		result = "wrong"
	case errors.Is(err, errSilent):
		result = "silent"
	}
	m.requests.WithLabelValues(result).Observe(took.Seconds())
}

// Gauges returns how many items wait.
func (s *Service) Gauges() []sampler.Source {
	backlog := sampler.NewGauge("millrace_enrichment_backlog_items", "Items whose outcome is stored, and that wait to be enriched.")
	return []sampler.Source{{
		Name: "enrichment", Gauges: []*sampler.Gauge{backlog}, Every: 15 * time.Second,
		Read: func(ctx context.Context, set sampler.Set) error {
			n, err := s.backlog(ctx)
			if err == nil {
				set(backlog, float64(n))
			}
			return err
		},
	}}
}

func (s *Service) backlog(ctx context.Context) (uint64, error) {
	conn, err := clickhouse.Open(s.deps.ClickHouse)
	if err != nil {
		return 0, fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	t := tables{conn}
	last, err := t.number(ctx, "position", s.asked())
	if err != nil {
		return 0, err
	}
	stored, err := s.stored(ctx)
	if err != nil {
		return 0, err
	}
	return t.number(ctx, "backlog", last, stored)
}

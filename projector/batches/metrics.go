package batches

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"
	"github.com/millrace-io/millrace/internal/sampler"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// metrics are those that Decision 6 of the specification names, as far as the projector knows.
type metrics struct {
	items    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	retried  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		items: metric.Counters("millrace_batches_items_processed_total",
			"Items whose outcome is stored: success or error.", "platform", "status"),
		errors: metric.Counters("millrace_batches_errors_by_code_total",
			"Items that are errors in their batches. The code other stands for codes that the taxonomy does not have.",
			"platform", "error_category", "error_code"),
		retried: metric.Counters("millrace_batches_items_retried_total",
			"Outcomes of items that were tried again, which are stored: success or error.", "platform", "status"),
		duration: metric.Histograms("millrace_batches_event_processing_duration_seconds",
			"Time from the announcement of a batch until its outcomes are stored.",
			[]float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}, "platform"),
	}
	for _, platform := range schema.Platforms { // so that the first error is an increase
		for category, codes := range schema.Codes() {
			for _, code := range codes {
				m.errors.WithLabelValues(platform, string(category), code)
			}
		}
	}
	return m, metric.Register(r, m.items, m.errors, m.retried, m.duration)
}

// observe notes a batch that is stored now.
func (m *metrics) observe(e *entry, seconds float64) {
	platform := schema.PlatformLabel(e.read.About.Platform)
	m.items.WithLabelValues(platform, schema.Success).Add(float64(e.ok))
	m.items.WithLabelValues(platform, schema.Failure).Add(float64(len(e.read.Items) - e.ok))
	m.duration.WithLabelValues(platform).Observe(seconds)
	for i := range e.read.Items {
		if item := &e.read.Items[i]; !item.OK() {
			code := item.Code
			if !schema.KnownCode(code) {
				code = "other"
			}
			m.errors.WithLabelValues(platform, string(item.Category), code).Inc()
		}
	}
}

// observeRetry notes an outcome of a retry that is stored now.
func (m *metrics) observeRetry(e *entry) {
	status := schema.Failure
	if e.read.Items[0].OK() {
		status = schema.Success
	}
	m.retried.WithLabelValues(schema.PlatformLabel(e.read.About.Platform), status).Inc()
}

const sqlRates = `SELECT platform, sum(ok), sum(error), sum(content_count) FROM millrace.batch
	WHERE read_at > now() - interval '15 minutes' GROUP BY platform`

// Gauges returns the rates of Decision 6.
func (s *Service) Gauges() []sampler.Source {
	const of = " of the items of batches that were read in the last 15 minutes. Absent when there are none."
	success := sampler.NewGauge("millrace_batches_success_rate", "Share that was crawled"+of, "platform")
	failure := sampler.NewGauge("millrace_batches_error_rate", "Share that are errors and are not tried again"+of,
		"platform")
	return []sampler.Source{{
		Name: "batches", Gauges: []*sampler.Gauge{success, failure},
		Read: func(ctx context.Context, set sampler.Set) error {
			rates, err := s.rates(ctx)
			for platform, r := range rates {
				if r.items > 0 {
					set(success, float64(r.ok)/float64(r.items), platform)
					set(failure, float64(r.failed)/float64(r.items), platform)
				}
			}
			return err
		},
	}}
}

// rate is what became of items.
type rate struct{ ok, failed, items int64 }

// rates returns what became of items by the labels of platforms.
func (s *Service) rates(ctx context.Context) (map[string]rate, error) {
	rows, err := s.deps.Postgres.Query(ctx, sqlRates)
	if err != nil {
		return nil, fmt.Errorf("read the rates of batches: %w", err)
	}
	all := map[string]rate{}
	var platform string
	var one rate
	_, err = pgx.ForEachRow(rows, []any{&platform, &one.ok, &one.failed, &one.items}, func() error {
		sum := all[schema.PlatformLabel(platform)]
		all[schema.PlatformLabel(platform)] = rate{sum.ok + one.ok, sum.failed + one.failed, sum.items + one.items}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the rates of batches: %w", err)
	}
	return all, nil
}

package batches

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// metrics are those that Decision 6 of the specification names, as far as the projector knows.
type metrics struct {
	items    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_batches_items_processed_total", Help: "Items whose outcome is stored: success or error.",
		}, []string{"platform", "status"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_batches_errors_by_code_total",
			Help: "Items that are errors. The code other stands for codes that the taxonomy does not have.",
		}, []string{"platform", "error_category", "error_code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "millrace_batches_event_processing_duration_seconds",
			Help:    "Time from the announcement of a batch until its outcomes are stored.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"platform"}),
	}
	return m, errors.Join(r.Register(m.items), r.Register(m.errors), r.Register(m.duration))
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

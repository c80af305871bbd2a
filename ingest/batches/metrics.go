package batches

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// metrics are those of Decision 6 of the specification that readers know.
type metrics struct {
	events *prometheus.CounterVec
	fetch  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		events: metric.Counters("millrace_batches_events_received_total",
			"Messages about batches that were taken, by format: event, legacy, inline, notification or invalid.",
			"platform", "format"),
		fetch: metric.Histograms("millrace_batches_batch_fetch_duration_seconds",
			"Time in which an object of a batch was read.",
			[]float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60}, "platform"),
	}
	return m, metric.Register(r, m.events, m.fetch)
}

func (m *metrics) received(a schema.Announcement, broken []schema.Invalid) {
	format := a.Format.String()
	if broken != nil {
		format = "invalid"
	}
	m.events.WithLabelValues(schema.PlatformLabel(a.Platform), format).Inc()
}

func (m *metrics) fetched(platform string, took time.Duration) {
	m.fetch.WithLabelValues(schema.PlatformLabel(platform)).Observe(took.Seconds())
}

package ingesthttp

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"

	"github.com/millrace-io/millrace/schemas/event"
)

type metrics struct {
	ingested   *prometheus.CounterVec
	duplicated prometheus.Counter
	rejected   *prometheus.CounterVec
	duration   prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, stages event.Stages) (*metrics, error) {
	m := &metrics{
		ingested: metric.Counters("pipeline_events_ingested_total",
			"Events accepted over HTTP, by stage.", "stage"),
		duplicated: metric.Counter("pipeline_events_duplicated_total",
			"Events received over HTTP that the stream had already."),
		rejected: metric.Counters("pipeline_events_rejected_total",
			"Events received over HTTP that break a rule, by the rule.", "reason"),
		duration: metric.Histogram("pipeline_ingest_duration_seconds",
			"Time to answer a request that brings events.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}),
	}
	// An alert on a stage that falls silent needs its zero.
	for _, stage := range stages.Names() {
		m.ingested.WithLabelValues(stage)
	}
	return m, metric.Register(reg, m.ingested, m.duplicated, m.rejected, m.duration)
}

func (m *metrics) time(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		next.ServeHTTP(w, r)
		m.duration.Observe(time.Since(start).Seconds())
	})
}

package projector

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	events     *prometheus.CounterVec
	duplicates prometheus.Counter
	rejected   *prometheus.CounterVec
	late       prometheus.Counter
	rows       prometheus.Histogram
	flush      prometheus.Histogram
	behind     prometheus.Gauge
	position   prometheus.Gauge
	cache      prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		events:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_projector_events_total", Help: "Events counted, by stage."}, []string{"stage"}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_projector_duplicates_total", Help: "Messages whose identity had been counted before."}),
		rejected:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millrace_projector_rejected_total", Help: "Messages put into the dead-letter stream, by reason."}, []string{"reason"}),
		late:       prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_projector_late_total", Help: "Events that arrived more than an hour after they happened."}),
		rows:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: "millrace_projector_batch_messages", Help: "Messages of a batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 9)}),
		flush:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "millrace_projector_flush_seconds", Help: "Time from deciding a batch until it is durable.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 13)}),
		behind:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_projector_behind", Help: "Messages of the stream behind the last durable batch."}),
		position:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_projector_position", Help: "Stream sequence up to which everything is durable."}),
		cache:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_projector_funnel_cache_bytes", Help: "Memory that funnel rows take."}),
	}
	reg.MustRegister(m.events, m.duplicates, m.rejected, m.late, m.rows, m.flush, m.behind, m.position, m.cache)
	return m
}

func (m *metrics) observe(b *batch, stages []string, seconds float64) {
	for i, n := range b.groups.byStage {
		m.events.WithLabelValues(stages[i]).Add(float64(n))
	}
	for _, l := range b.letters {
		m.rejected.WithLabelValues(l.Reason.Code).Inc()
	}
	m.duplicates.Add(float64(b.duplicates))
	m.late.Add(float64(b.late.events))
	m.rows.Observe(float64(b.messages))
	m.flush.Observe(seconds)
	m.behind.Set(float64(b.last.Pending))
	m.position.Set(float64(b.To))
}

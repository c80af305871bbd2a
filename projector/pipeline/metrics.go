package pipeline

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
)

type metrics struct {
	events     *prometheus.CounterVec
	duplicates prometheus.Counter
	conflicts  prometheus.Counter
	rejected   *prometheus.CounterVec
	late       prometheus.Counter
	rows       prometheus.Histogram
	flush      prometheus.Histogram
	position   *prometheus.GaugeVec
	cache      *prometheus.GaugeVec
	keys       *prometheus.GaugeVec
	counted    *prometheus.GaugeVec
	missing    *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		events: metric.Counters("millrace_projector_events_total", "Events counted, by stage.", "stage"),
		duplicates: metric.Counter("millrace_projector_duplicates_total",
			"Messages whose identity had been counted before."),
		conflicts: metric.Counter("millrace_projector_key_conflicts_total",
			"Messages whose identity is that of an event of another stage or service, and which are dead "+
				"letters therefore."),
		rejected: metric.Counters("millrace_projector_rejected_total",
			"Messages put into the dead-letter stream, by reason.", "reason"),
		late: metric.Counter("millrace_projector_late_total",
			"Events that arrived more than an hour after they happened."),
		rows: metric.Histogram("millrace_projector_batch_messages",
			"Messages of a batch.", prometheus.ExponentialBuckets(1, 4, 9)),
		flush: metric.Histogram("millrace_projector_flush_seconds",
			"Time from deciding a batch until it is durable.", prometheus.ExponentialBuckets(0.002, 2, 13)),
		position: metric.Gauges("millrace_projector_position",
			"Stream sequence up to which everything is durable.", "group"),
		cache: metric.Gauges("millrace_projector_funnel_cache_bytes", "Memory that funnel rows take.", "group"),
		keys: metric.Gauges("millrace_projector_keystore_bytes",
			"Disk that the store of known identities takes; it forgets none.", "group"),
		counted: metric.Gauges("millrace_projector_counted_events",
			"Events that the group has counted in all, as its checkpoint says, when ClickHouse was last compared.",
			"group"),
		missing: metric.Gauges("millrace_projector_missing_events",
			"Counted events that ClickHouse did not have then; 0 unless rows were lost, deleted or put back.",
			"group"),
	}
	reg.MustRegister(m.events, m.duplicates, m.conflicts, m.rejected, m.late, m.rows, m.flush, m.position,
		m.cache, m.keys, m.counted, m.missing)
	return m
}

func (m *metrics) observe(g slots.Group, b *batch, stages []string, seconds float64) {
	for i, n := range b.byStage {
		m.events.WithLabelValues(stages[i]).Add(float64(n))
	}
	for _, l := range b.letters {
		m.rejected.WithLabelValues(l.Reason.Code).Inc()
	}
	if n := len(b.conflicts); n > 0 {
		m.rejected.WithLabelValues(event.KeyConflict).Add(float64(n))
		m.conflicts.Add(float64(n))
	}
	m.duplicates.Add(float64(b.duplicates))
	m.late.Add(float64(b.late.events))
	m.rows.Observe(float64(b.messages))
	m.flush.Observe(seconds)
	m.position.WithLabelValues(label(g)).Set(float64(b.To))
	m.cache.WithLabelValues(label(g)).Set(float64(b.cached))
}

// stored sets the size of a group's key store; a store that has been given up has none.
func (m *metrics) stored(g slots.Group, keys interface{ Bytes() (uint64, error) }) {
	if size, err := keys.Bytes(); err == nil {
		m.keys.WithLabelValues(label(g)).Set(float64(size))
		return
	}
	m.keys.DeleteLabelValues(label(g))
}

func (m *metrics) audited(g slots.Group, counted, missing uint64) {
	m.counted.WithLabelValues(label(g)).Set(float64(counted))
	m.missing.WithLabelValues(label(g)).Set(float64(missing))
}

// forget takes out what is said of a group that is no longer owned.
func (m *metrics) forget(g slots.Group) {
	for _, v := range []*prometheus.GaugeVec{m.position, m.cache, m.keys, m.counted, m.missing} {
		v.DeleteLabelValues(label(g))
	}
}

func label(g slots.Group) string { return strconv.FormatUint(uint64(g.ID), 10) }

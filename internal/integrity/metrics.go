package integrity

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"
)

type metrics struct {
	lostMessages *prometheus.CounterVec
	damaged      *prometheus.GaugeVec
	scrubs       *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, streams []Stream) *metrics {
	m := &metrics{
		lostMessages: metric.Counters("millrace_stream_lost_messages_total",
			"Messages found to be lost, by stream; at a start, those that nobody has accepted yet.", "stream"),
		damaged: metric.Gauges("millrace_stream_damaged",
			"Whether a stream has lost messages, or its metadata, and nobody has accepted that.", "stream"),
		scrubs: metric.Gauges("millrace_stream_scrubbed_timestamp_seconds",
			"When the stream was last read from its first message to its last to find damage.", "stream"),
	}
	for _, st := range streams {
		m.lostMessages.WithLabelValues(st.Name)
		m.damaged.WithLabelValues(st.Name)
	}
	reg.MustRegister(m.lostMessages, m.damaged, m.scrubs)
	return m
}

// lost counts messages of a stream, whose note is given.
func (m *metrics) lost(name string, count uint64, n *note) {
	m.lostMessages.WithLabelValues(name).Add(float64(count))
	damaged := 0.
	if len(n.Lost) > 0 || len(n.Remarks) > 0 {
		damaged = 1
	}
	m.damaged.WithLabelValues(name).Set(damaged)
}

func (m *metrics) scrubbed(name string) { m.scrubs.WithLabelValues(name).SetToCurrentTime() }

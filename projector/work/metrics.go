package work

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"
)

type metrics struct {
	published prometheus.Counter
	answers   *prometheus.CounterVec
	moves     *prometheus.CounterVec
	mended    *prometheus.CounterVec
	reports   *prometheus.CounterVec
	leading   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		published: metric.Counter("millrace_work_published_total", "Items put on work queues."),
		answers: metric.Counters("millrace_work_answers_total",
			"Answers of plain daemons to messages of work queues, by kind.", "kind"),
		moves: metric.Counters("millrace_work_moves_total", "Moves that clients told, by verdict.", "verdict"),
		mended: metric.Counters("millrace_work_mended_total",
			"Differences between work queues and Postgres that were mended, by kind.", "kind"),
		reports: metric.Counters("millrace_work_reports_total",
			"Reports of shard daemons over NATS, by outcome.", "outcome"),
		leading: metric.Gauge("millrace_work_leading", "Whether this process publishes to the work queues."),
	}
	return m, metric.Register(r, m.published, m.answers, m.moves, m.mended, m.reports, m.leading)
}

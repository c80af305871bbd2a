package work

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
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
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "millrace", Subsystem: "work",
			Name: name, Help: help,
		}, []string{label})
	}
	m := &metrics{
		published: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "millrace", Subsystem: "work", Name: "published_total", Help: "Items put on work queues.",
		}),
		answers: counter("answers_total", "Answers of plain daemons to messages of work queues, by kind.", "kind"),
		moves:   counter("moves_total", "Moves that clients told, by verdict.", "verdict"),
		mended: counter("mended_total", "Differences between work queues and Postgres that were mended, by kind.",
			"kind"),
		reports: counter("reports_total", "Reports of shard daemons over NATS, by outcome.", "outcome"),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "millrace_work_leading",
			Help: "Whether this process publishes to the work queues.",
		}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.published, m.answers, m.moves, m.mended, m.reports, m.leading} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

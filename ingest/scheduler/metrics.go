package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"
)

type metrics struct {
	cycles, dispatched prometheus.Counter
	outcomes           *prometheus.CounterVec
	look, lateness     prometheus.Histogram
	duration           *prometheus.HistogramVec
	articles           *prometheus.CounterVec
}

// newMetrics registers what this process counts. Their names are those that the
// dashboards of crawls know.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		cycles: metric.Counter("crawler_scheduler_runs_total", "Looks for jobs that are due."),
		dispatched: metric.Counter("crawler_scheduler_jobs_dispatched_total",
			"Runs that were put into the queue crawl."),
		outcomes: metric.Counters("millrace_scheduler_due_total",
			"Due times of jobs, by what became of them.", "outcome"),
		look: metric.Histogram("millrace_scheduler_look_seconds",
			"Duration of looks for jobs that are due, with the decisions about them.",
			[]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5}),
		lateness: metric.Histogram("millrace_scheduler_lateness_seconds",
			"From the due time of a regular run to the decision that it runs.",
			[]float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60}),
		duration: metric.Histograms("crawler_crawl_duration_seconds",
			"Duration of runs that have ended.", []float64{1, 5, 10, 30, 60, 120, 300}, "source_name", "status"),
		articles: metric.Counters("crawler_articles_extracted_total",
			"Articles that runs have found.", "source_name"),
	}
	return m, metric.Register(reg, m.cycles, m.dispatched, m.outcomes, m.look, m.lateness, m.duration, m.articles)
}

package scheduler

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
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
		cycles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "crawler_scheduler_runs_total", Help: "Looks for jobs that are due.",
		}),
		dispatched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "crawler_scheduler_jobs_dispatched_total", Help: "Runs that were put into the queue crawl.",
		}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_scheduler_due_total", Help: "Due times of jobs, by what became of them.",
		}, []string{"outcome"}),
		look: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "millrace_scheduler_look_seconds",
			Help:    "Duration of looks for jobs that are due, with the decisions about them.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5},
		}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "millrace_scheduler_lateness_seconds",
			Help:    "From the due time of a regular run to the decision that it runs.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60},
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "crawler_crawl_duration_seconds", Help: "Duration of runs that have ended.",
			Buckets: []float64{1, 5, 10, 30, 60, 120, 300},
		}, []string{"source_name", "status"}),
		articles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "crawler_articles_extracted_total", Help: "Articles that runs have found.",
		}, []string{"source_name"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.cycles, m.dispatched, m.outcomes, m.look, m.lateness, m.duration, m.articles,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

package jobs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/schemas/source"
)

// metrics have the names that the dashboards of crawlers know.
type metrics struct {
	received   *prometheus.CounterVec
	processed  *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	unanswered prometheus.Counter
	lag        prometheus.Gauge
	created    prometheus.Counter
	updated    prometheus.Counter
	byStatus   *prometheus.GaugeVec
	byPriority *prometheus.GaugeVec
	resting    prometheus.Gauge
	runs       *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(name, help)), labels)
	}
	m := &metrics{
		received: counters("crawler_events_received_total", "Events of sources that were read from the stream, also again.",
			"event_type"),
		processed: counters("crawler_events_processed_total", "Events of sources that were processed: success, duplicate, "+
			"or error of those that are dead letters.", "event_type", "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "crawler_event_processing_duration_seconds",
			Help:    "Time until an event of a source was applied, with those that came with it.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5},
		}, []string{"event_type"}),
		unanswered: counter("crawler_event_answers_failed_total",
			"Answers to the stream that failed: their events come again."),
		lag: prometheus.NewGauge(prometheus.GaugeOpts(opts("crawler_consumer_lag_messages",
			"Events of sources on the stream that are not processed."))),
		created:    counter("crawler_jobs_created_total", "Jobs that events have made."),
		updated:    counter("crawler_jobs_updated_total", "Changes of jobs by events."),
		byStatus:   gauges("crawler_jobs_by_status", "Jobs by their status.", "status"),
		byPriority: gauges("crawler_jobs_by_priority", "Jobs by their priority.", "priority"),
		resting: prometheus.NewGauge(prometheus.GaugeOpts(opts("crawler_jobs_in_backoff",
			"Jobs that wait, since their runs have failed."))),
		runs: gauges("crawler_runs_under_way",
			"Runs that wait for a worker (queued), and that a worker has (active).", "state"),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.received, m.processed, m.duration, m.unanswered, m.lag, m.created, m.updated, m.byStatus, m.byPriority,
		m.resting, m.runs,
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// kind is a type of events as a label: what is no type is unknown.
func kind(eventType string) string {
	if slices.Contains(source.Types, eventType) {
		return eventType
	}
	return "unknown"
}

// ended notes the outcome of an answer to the stream.
func (m *metrics) ended(err error) {
	if err != nil {
		m.unanswered.Inc()
	}
}

// lookEvery is how often the gauges are set.
const lookEvery = 5 * time.Second

// watch keeps the gauges, until ctx ends.
func (s *Service) watch(ctx context.Context) error {
	for {
		if err := errors.Join(s.lookAtLag(ctx), s.lookAtJobs(ctx)); err != nil && ctx.Err() == nil {
			s.log.Debug("the numbers of jobs are not read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
}

func (s *Service) lookAtLag(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	c, err := s.consumer(ctx)
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	s.metrics.lag.Set(float64(info.NumPending) + float64(info.NumAckPending))
	return nil
}

func (s *Service) lookAtJobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	n, err := s.store.Numbers(ctx)
	if err != nil {
		return err
	}
	s.metrics.byStatus.Reset()
	for status, count := range n.ByStatus {
		s.metrics.byStatus.WithLabelValues(status).Set(float64(count))
	}
	s.metrics.byPriority.Reset()
	for priority, count := range n.ByPriority {
		s.metrics.byPriority.WithLabelValues(strconv.Itoa(priority)).Set(float64(count))
	}
	s.metrics.resting.Set(float64(n.Resting))
	s.metrics.runs.WithLabelValues("queued").Set(float64(n.Queued))
	s.metrics.runs.WithLabelValues("active").Set(float64(n.Active))
	return nil
}

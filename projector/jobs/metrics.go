package jobs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/source"
)

// metrics have the names that the dashboards of crawlers know.
type metrics struct {
	received   *prometheus.CounterVec
	processed  *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	unanswered prometheus.Counter
	created    prometheus.Counter
	updated    prometheus.Counter
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
		created: counter("crawler_jobs_created_total", "Jobs that events have made."),
		updated: counter("crawler_jobs_updated_total", "Changes of jobs by events."),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.received, m.processed, m.duration, m.unanswered, m.created, m.updated,
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

// Gauges returns the gauges of jobs. Those of the stream and those of Postgres are sources
// of their own: one may be away.
func (s *Service) Gauges() []sampler.Source { return []sampler.Source{s.lag(), s.numbers()} }

// lookEvery is how often the gauges are read.
const lookEvery = 5 * time.Second

func (s *Service) lag() sampler.Source {
	lag := sampler.NewGauge("crawler_consumer_lag_messages", "Events of sources on the stream that are not processed.")
	return sampler.Source{
		Name: "events of sources", Gauges: []*sampler.Gauge{lag}, Every: lookEvery,
		Read: func(ctx context.Context, set sampler.Set) error {
			c, err := s.consumer(ctx)
			if err != nil {
				return err
			}
			info := c.CachedInfo()
			set(lag, float64(info.NumPending)+float64(info.NumAckPending))
			return nil
		},
	}
}

func (s *Service) numbers() sampler.Source {
	byStatus := sampler.NewGauge("crawler_jobs_by_status", "Jobs by their status.", "status")
	byPriority := sampler.NewGauge("crawler_jobs_by_priority", "Jobs by their priority.", "priority")
	resting := sampler.NewGauge("crawler_jobs_in_backoff", "Jobs that wait, since their runs have failed.")
	runs := sampler.NewGauge("crawler_runs_under_way",
		"Runs that wait for a worker (queued), and that a worker has (active).", "state")
	return sampler.Source{
		Name: "jobs", Gauges: []*sampler.Gauge{byStatus, byPriority, resting, runs}, Every: lookEvery,
		Read: func(ctx context.Context, set sampler.Set) error {
			n, err := s.store.Numbers(ctx)
			if err != nil {
				return err
			}
			for status, count := range n.ByStatus {
				set(byStatus, float64(count), status)
			}
			for priority, count := range n.ByPriority {
				set(byPriority, float64(count), strconv.Itoa(priority))
			}
			set(resting, float64(n.Resting))
			set(runs, float64(n.Queued), "queued")
			set(runs, float64(n.Active), "active")
			return nil
		},
	}
}

package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/metric"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/source"
	"github.com/millrace-io/millrace/schemas/stream"
)

// metrics have the names that the dashboards of crawlers know.
type metrics struct {
	received  *prometheus.CounterVec
	processed *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	created   prometheus.Counter
	updated   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		received: metric.Counters("crawler_events_received_total", "Events of sources that were read from the stream, also again.",
			"event_type"),
		processed: metric.Counters("crawler_events_processed_total", "Events of sources that were processed: success, duplicate, "+
			"or error of those that are dead letters.", "event_type", "result"),
		duration: metric.Histograms("crawler_event_processing_duration_seconds",
			"Time until an event of a source was applied, with those that came with it.",
			[]float64{0.01, 0.05, 0.1, 0.5, 1, 5}, "event_type"),
		created: metric.Counter("crawler_jobs_created_total", "Jobs that events have made."),
		updated: metric.Counter("crawler_jobs_updated_total", "Changes of jobs by events."),
	}
	return m, metric.Register(r, m.received, m.processed, m.duration, m.created, m.updated)
}

// kind is a type of events as a label: what is no type is unknown.
func kind(eventType string) string {
	if slices.Contains(source.Types, eventType) {
		return eventType
	}
	return "unknown"
}

// observe notes what became of messages, in a transaction that took some time.
func (m *metrics) observe(all []message, outcomes []jobs.Outcome, n jobs.Counts, took time.Duration) {
	m.created.Add(float64(n.Created))
	m.updated.Add(float64(n.Updated))
	for i, one := range all {
		result := "success"
		switch outcomes[i] {
		case jobs.Waiting:
			continue
		case jobs.Dead:
			result = "error"
		case jobs.Duplicate:
			result = "duplicate"
		}
		m.processed.WithLabelValues(kind(one.event.Type), result).Inc()
		if !one.skip {
			m.duration.WithLabelValues(one.event.Type).Observe(took.Seconds())
		}
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
			n, _, err := s.behind(ctx)
			if err == nil {
				set(lag, float64(n))
			}
			return err
		},
	}
}

// behind returns how many events are on the stream that are not applied, or that wait,
// and how many are not published.
func (s *Service) behind(ctx context.Context) (events, unpublished uint64, err error) {
	st, err := s.js.Stream(ctx, stream.Sources)
	if err != nil {
		return 0, 0, fmt.Errorf("read stream %s: %w", stream.Sources, err)
	}
	state := st.CachedInfo().State
	p, err := s.store.Progress(ctx, stream.Sources)
	passed := max(p.Position+1, state.FirstSeq) - 1
	return max(passed, state.LastSeq) - passed + p.Waiting, p.Unpublished, err
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

package emit

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// metrics are a client's metrics. Clients of one registry share them; the label
// target_url tells them apart where that matters.
type metrics struct {
	target   string
	emits    *prometheus.CounterVec // by status and stage
	state    *prometheus.GaugeVec   // by target
	duration prometheus.Histogram
	drops    prometheus.Counter
	waiting  *waiting
}

func newMetrics(registry prometheus.Registerer, target string) (*metrics, error) {
	m := &metrics{
		target: target,
		emits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pipeline_emit_total",
			Help: "Deliveries of events: done (success); failed, to be tried again, or refused or dropped (error).",
		}, []string{"status", "stage"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pipeline_circuit_state", Help: "Circuit breaker: 0 closed, 1 open or half-open.",
		}, []string{"target_url"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pipeline_emit_duration_seconds", Help: "Time of an attempt to deliver a batch of events.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 2.5, 5, 10},
		}),
		drops: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pipeline_emit_dropped_total", Help: "Events that found the buffer or the spool full, were lost " +
				"to damage of the spool, or were left in the buffer when the client closed.",
		}),
	}
	m.waiting = newWaiting()
	if registry != nil {
		if err := errors.Join(register(registry, &m.emits), register(registry, &m.state),
			register(registry, &m.duration), register(registry, &m.drops),
			register(registry, &m.waiting)); err != nil {
			return nil, fmt.Errorf("client: register metrics: %w", err)
		}
	}
	m.state.WithLabelValues(target).Set(0)
	return m, nil
}

// register registers a collector, or takes the one that is registered.
func register[C prometheus.Collector](registry prometheus.Registerer, c *C) error {
	err := registry.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			*c = existing
			return nil
		}
	}
	return err
}

func (m *metrics) delivered(stage string) { m.emits.WithLabelValues("success", stage).Inc() }

func (m *metrics) failed(stage string, n int) {
	m.emits.WithLabelValues("error", stage).Add(float64(n))
}

func (m *metrics) drop(n int) { m.drops.Add(float64(n)) }

func (m *metrics) took(d time.Duration) { m.duration.Observe(d.Seconds()) }

// circuit shows half-open as open: an outage is then one span, in which the
// breaker tries now and then, and one alert.
func (m *metrics) circuit(s gobreaker.State) {
	value := 1.0
	if s == gobreaker.StateClosed {
		value = 0
	}
	m.state.WithLabelValues(m.target).Set(value)
}

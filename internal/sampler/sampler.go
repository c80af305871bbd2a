// Package sampler exports gauges whose values come from servers and disks.
//
// A loop of its own reads each source, so that a scrape never waits for one. A value
// is exported while it is current: at most [Limit] old, or three times the wait between
// two reads where that is longer. After that the gauges of the source are absent, and
// come back with the next read that succeeds. [Sampler] says of each source whether its
// gauges are current, and when it was last read.
package sampler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	every   = 10 * time.Second // default time between two reads of a source
	timeout = 5 * time.Second  // default bound on a read
	// share bounds what reading costs: after a read the source rests for so many times as
	// long as the read has taken.
	share = 20
)

// Limit is how old a value of a source with the default Every may be.
const Limit = 3 * every

// Gauge describes a gauge of a source.
type Gauge = prometheus.Desc

// NewGauge describes a gauge.
func NewGauge(name, help string, labels ...string) *Gauge {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Set exports a value of a gauge, with the values of its labels.
type Set func(g *Gauge, value float64, labels ...string)

// Bool is the value of a gauge that says whether something is so: 1 or 0.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Source is where the values of some gauges come from.
type Source struct {
	Name   string // a label of the sampler's own metrics
	Gauges []*Gauge
	// Read sets all values. A gauge that it does not set is absent until the next read. An
	// error discards what was set.
	Read func(ctx context.Context, set Set) error
	// Every is the time between two reads; default 10 s.
	Every time.Duration
	// Timeout bounds a read; default 5 s.
	Timeout time.Duration
}

// Sampler reads sources. Add them before it runs. It is a prometheus.Collector.
type Sampler struct {
	log            *slog.Logger
	registry       prometheus.Registerer
	now            func() time.Time
	current, asked *Gauge

	mu      sync.Mutex
	sources []*sampled
}

// sampled is a source with what was last read of it. The sampler's mutex guards all but
// the source.
type sampled struct {
	Source
	values  []prometheus.Metric
	at      time.Time // of the last read that succeeded; zero: there was none
	until   time.Time // when its values stop being current
	failing time.Time // since when reads fail; zero: the last one did not
	warned  bool      // of that
}

// New returns a sampler without sources, registered with a registry. It starts nothing.
func New(registry prometheus.Registerer, log *slog.Logger) (*Sampler, error) {
	if registry == nil || log == nil {
		return nil, errors.New("sampler: a registry and a logger are needed")
	}
	s := &Sampler{
		log: log.With("component", "sampler"), registry: registry, now: time.Now,
		current: NewGauge("millrace_sample_current",
			"1 while the gauges of a source are current, 0 while they are absent because it cannot be read.", "source"),
		asked: NewGauge("millrace_sample_timestamp_seconds", "When a source was last read; 0: never.", "source"),
	}
	if err := registry.Register(s); err != nil {
		return nil, fmt.Errorf("register the gauges of the sampler: %w", err)
	}
	return s, nil
}

// Add adds a source. Its gauges are registered, so that no two sources have the same.
func (s *Sampler) Add(source Source) error {
	if source.Every == 0 {
		source.Every = every
	}
	if source.Timeout == 0 {
		source.Timeout = timeout
	}
	of := &sampled{Source: source}
	if err := s.registry.Register(collector{s, of}); err != nil {
		return fmt.Errorf("register the gauges of %s: %w", source.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, of)
	return nil
}

// Run reads all sources until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
	s.mu.Lock()
	sources := s.sources
	s.mu.Unlock()
	var loops sync.WaitGroup
	for _, of := range sources {
		loops.Go(func() { s.keep(ctx, of) })
	}
	loops.Wait()
	return nil
}

// Read reads all sources once, without waiting for their turn.
func (s *Sampler) Read(ctx context.Context) {
	s.mu.Lock()
	sources := s.sources
	s.mu.Unlock()
	for _, of := range sources {
		s.read(ctx, of)
	}
}

// keep reads a source until ctx ends. A read that ignores the end of its time delays the
// next one, and the values age meanwhile.
func (s *Sampler) keep(ctx context.Context, of *sampled) {
	for ctx.Err() == nil {
		select {
		case <-time.After(s.read(ctx, of)):
		case <-ctx.Done():
		}
	}
}

// read reads a source once, and returns how long to wait.
func (s *Sampler) read(ctx context.Context, of *sampled) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, of.Timeout)
	defer cancel()
	begin := s.now()
	var values []prometheus.Metric
	err := of.Read(bounded, func(g *Gauge, value float64, labels ...string) {
		values = append(values, prometheus.MustNewConstMetric(g, prometheus.GaugeValue, value, labels...))
	})
	if ctx.Err() != nil {
		return 0
	}
	wait := max(of.Every, share*s.now().Sub(begin))
	if err != nil {
		wait = of.Every
	}
	s.note(of, begin, wait, values, err)
	return wait
}

func (s *Sampler) note(of *sampled, begin time.Time, wait time.Duration, values []prometheus.Metric, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.fail(of, begin, err)
		return
	}
	if of.warned {
		s.log.Info("a source of metrics can be read again", "source", of.Name)
	}
	of.values, of.at, of.until = values, begin, begin.Add(3*wait)
	of.failing, of.warned = time.Time{}, false
}

// fail notes that a source cannot be read. It warns when its gauges are absent for it, and
// not while a process that has just started waits for its servers.
func (s *Sampler) fail(of *sampled, now time.Time, err error) {
	if of.failing.IsZero() {
		of.failing = now
	}
	if of.warned || now.Sub(of.failing) < 3*of.Every {
		return
	}
	of.warned = true
	s.log.Warn("cannot read a source of metrics: its gauges are absent until it can be read",
		"source", of.Name, "error", err, "retry_in", of.Every)
}

// Describe implements prometheus.Collector.
func (s *Sampler) Describe(ch chan<- *prometheus.Desc) { ch <- s.current; ch <- s.asked }

// Collect implements prometheus.Collector.
func (s *Sampler) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.sources {
		asked := 0.0
		if !of.at.IsZero() {
			asked = float64(of.at.UnixMilli()) / 1000
		}
		ch <- prometheus.MustNewConstMetric(s.current, prometheus.GaugeValue, Bool(s.now().Before(of.until)), of.Name)
		ch <- prometheus.MustNewConstMetric(s.asked, prometheus.GaugeValue, asked, of.Name)
	}
}

// collector exports the gauges of one source while they are current.
type collector struct {
	s  *Sampler
	of *sampled
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range c.of.Gauges {
		ch <- g
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.s.now().Before(c.of.until) {
		return
	}
	for _, v := range c.of.values {
		ch <- v
	}
}

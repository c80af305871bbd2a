package dlq

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds on what a scrape asks of NATS.
const (
	countFor  = 5 * time.Second // how long a count is kept, so that many scrapers cost no more than one
	countWait = 500 * time.Millisecond
)

// gauge counts the letters when it is scraped. While NATS does not answer
// there is no value: an old one would look like a true one.
type gauge struct {
	s     *Service
	desc  *prometheus.Desc
	mu    sync.Mutex // held while asking, so that scrapers share the answer
	at    time.Time
	count uint64
	known bool
}

// NewGauge returns the metric millrace_dlq_messages.
func NewGauge(s *Service) prometheus.Collector {
	return &gauge{s: s, desc: prometheus.NewDesc("millrace_dlq_messages", "Dead letters in the DLQ stream.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (g *gauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g *gauge) Collect(ch chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.s.now(); g.at.IsZero() || now.Sub(g.at) >= countFor || now.Before(g.at) {
		ctx, cancel := context.WithTimeout(context.Background(), countWait)
		st, err := g.s.stream(ctx)
		cancel()
		g.at, g.known = now, err == nil
		if g.known {
			g.count = st.CachedInfo().State.Msgs
		}
	}
	if g.known {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.count))
	}
}

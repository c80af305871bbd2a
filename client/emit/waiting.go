package emit

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// waiting exports what waits in the queues of all clients of a registry, by target, as it
// is when it is scraped.
type waiting struct {
	events, bytes, full *prometheus.Desc

	mu      sync.Mutex
	clients map[*Client]struct{}
}

func newWaiting() *waiting {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"target_url"}, nil)
	}
	return &waiting{
		events: desc("pipeline_emit_waiting_events", "Events in the buffer or the spool."),
		bytes:  desc("pipeline_emit_waiting_bytes", "Bytes of events in the buffer or the spool."),
		full: desc("pipeline_emit_full_ratio",
			"How full the buffer or the spool is, from 0 to 1: when it is full, events are dropped."),
		clients: map[*Client]struct{}{},
	}
}

// add adds a client, whose queue is open, and returns what removes it.
func (w *waiting) add(c *Client) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[c] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.clients, c)
	}
}

// Describe implements prometheus.Collector.
func (w *waiting) Describe(ch chan<- *prometheus.Desc) { ch <- w.events; ch <- w.bytes; ch <- w.full }

// Collect implements prometheus.Collector.
func (w *waiting) Collect(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	clients := slices.Collect(maps.Keys(w.clients))
	w.mu.Unlock()
	type sums struct{ events, bytes, full float64 }
	targets := map[string]*sums{}
	for _, c := range clients {
		events, bytes := c.queue.size()
		s := targets[c.target]
		if s == nil {
			s = new(sums)
			targets[c.target] = s
		}
		s.events += float64(events)
		s.bytes += float64(bytes)
		s.full = max(s.full, c.opts.fullness(events, bytes))
	}
	for target, s := range targets {
		ch <- prometheus.MustNewConstMetric(w.events, prometheus.GaugeValue, s.events, target)
		ch <- prometheus.MustNewConstMetric(w.bytes, prometheus.GaugeValue, s.bytes, target)
		ch <- prometheus.MustNewConstMetric(w.full, prometheus.GaugeValue, s.full, target)
	}
}

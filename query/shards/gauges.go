package shards

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/scrape"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
)

// gauges are the state in numbers, asked for when scraped. While Postgres does
// not answer there are no values after a while: old ones would look like true ones.
type gauges struct {
	summary                                     *scrape.Value[tracking.Summary]
	items, depth, oldest, delayed, dead, paused *prometheus.Desc
}

func newGauges(store *tracking.Store) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_shard_"+name, help, labels, nil)
	}
	return &gauges{
		summary: &scrape.Value[tracking.Summary]{
			Ask: store.Summary, Limit: 2 * time.Second, Keep: 30 * time.Second,
		},
		items: desc("items", "Items by their status at a stage.", "stage", "status"),
		depth: desc("queue_depth", "Items that can be taken now.", "stage"),
		oldest: desc("queue_oldest_age_seconds", "How long the oldest item has stood in the queue; 0 in an empty one.",
			"stage"),
		delayed: desc("queue_delayed", "Items that can be taken later.", "stage"),
		dead:    desc("queue_dead", "Failed items without attempts left.", "stage"),
		paused:  desc("queue_paused", "1 while the stage is paused.", "stage"),
	}
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.items, g.depth, g.oldest, g.delayed, g.dead, g.paused} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	s, known := g.summary.Get()
	if !known {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for stage, counts := range s.ByStage {
		for status, n := range counts {
			gauge(g.items, float64(n), shard.Stage(stage).String(), shard.Status(status).String())
		}
	}
	now := time.Now()
	for _, q := range s.Queues {
		name := q.Stage.String()
		gauge(g.depth, float64(q.Depth), name)
		gauge(g.oldest, age(q, now), name)
		gauge(g.delayed, float64(q.Delayed), name)
		gauge(g.dead, float64(q.Dead), name)
		paused := 0.0
		if q.Paused {
			paused = 1
		}
		gauge(g.paused, paused, name)
	}
}

package httpapi

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/sampler"
)

// probeEvery is how often dependencies are probed for the metrics.
const probeEvery = 5 * time.Second

// Dependencies returns the gauges of what /ready asks after.
func (s *Server) Dependencies() sampler.Source {
	up := sampler.NewGauge("millrace_dependency_up",
		"1 while a dependency was up when it was last probed, else 0. /ready says why.", "dependency")
	since := sampler.NewGauge("millrace_dependency_since_timestamp_seconds",
		"When the dependency came to its present state.", "dependency")
	needed := sampler.NewGauge("millrace_dependency_needed",
		"1 where the process is not ready while the dependency is down.", "dependency")
	return sampler.Source{
		Name: "dependencies", Gauges: []*sampler.Gauge{up, since, needed}, Every: probeEvery,
		Read: func(_ context.Context, set sampler.Set) error {
			for _, c := range s.readiness.now().Checks {
				set(up, sampler.Bool(c.Status == "up"), c.Name)
				set(since, float64(c.Since.UnixMilli())/1000, c.Name)
				set(needed, sampler.Bool(c.Needed), c.Name)
			}
			return nil
		},
	}
}

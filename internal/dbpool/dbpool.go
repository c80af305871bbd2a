// Package dbpool opens connection pools of databases, and measures how busy they are.
package dbpool

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is the state of a pool at a moment.
type Stats struct {
	Active  int // connections at work
	Idle    int // connections that could be
	Waiting int // calls that wait for a connection
}

// Register adds the gauges of a pool to a registry, as
// pipeline_db_connections{pool,state}.
func Register(reg prometheus.Registerer, pool string, stats func() Stats) error {
	for state, value := range map[string]func(Stats) int{
		"active":  func(s Stats) int { return s.Active },
		"idle":    func(s Stats) int { return s.Idle },
		"waiting": func(s Stats) int { return s.Waiting },
	} {
		g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "pipeline_db_connections",
			Help:        "Connections of a database pool that are active or idle, and calls that wait for one.",
			ConstLabels: prometheus.Labels{"pool": pool, "state": state},
		}, func() float64 { return float64(value(stats())) })
		if err := reg.Register(g); err != nil {
			return fmt.Errorf("register metrics of the pool %s: %w", pool, err)
		}
	}
	return nil
}

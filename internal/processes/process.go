package processes

import (
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// Process is a process of an installation.
type Process struct {
	ID        string    `json:"id" doc:"Of this run of the process"`
	Host      string    `json:"host" example:"node-3"`
	Roles     []string  `json:"roles" nullable:"false"`
	Version   string    `json:"version" example:"1.0.0"`
	StartedAt time.Time `json:"started_at"`
	// SeenAt is when it has said last that it is there.
	SeenAt  time.Time `json:"seen_at" doc:"When it has last said that it is there"`
	Answers bool      `json:"answers" doc:"Whether it has answered now; without that, nothing below is known"`

	Ready    bool                  `json:"ready"`
	Checks   []httpapi.CheckStatus `json:"checks,omitempty" doc:"As at /ready"`
	Off      []httpapi.Off         `json:"off,omitempty" doc:"As at /health"`
	Warnings []string              `json:"warnings,omitempty"`
	Damage   []string              `json:"damage,omitempty"`
	Alerts   []Alert               `json:"alerts,omitempty" doc:"Alerts whose conditions hold for this process"`
	Gauges   []Gauge               `json:"gauges,omitempty" doc:"What it knows of lag, queues and dead letters"`
}

// Gauge is a value of a metric.
type Gauge struct {
	Name   string            `json:"name" example:"millrace_projector_behind"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
}

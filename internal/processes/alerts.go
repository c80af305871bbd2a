package processes

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Alert is an alert whose condition holds. Prometheus fires it when that lasts.
type Alert struct {
	Name   string `json:"name" example:"MillraceOutboxWaiting"`
	Detail string `json:"detail" doc:"The metric, its labels, and its value"`
}

// Condition is that of an alert in deploy/prometheus/rules.yml that one process can judge by
// its own gauges. What needs rates or the hours before is Prometheus's alone.
type Condition struct {
	Alert, Metric string
	Op            string // < or > or ==
	Limit         float64
	Of            string // the metric that Limit is a share of; empty: none
	Abs           bool   // the sign of the value does not matter
	// And has further conditions on gauges with the same labels. Unless has one that must not hold of any gauge.
	And    []Condition
	Unless *Condition
}

// taken and paused are about the queue that an alert is about.
var (
	taken    = Condition{Metric: "millrace_queue_running", Op: ">", Limit: 0}
	notTaken = Condition{Metric: "millrace_queue_running", Op: "==", Limit: 0}
	open     = Condition{Metric: "millrace_queue_paused", Op: "==", Limit: 0}
)

// Conditions are all of them. A test compares them with the rules.
var Conditions = []Condition{
	{Alert: "MillraceDependencyDown", Metric: "millrace_dependency_up", Op: "==", Limit: 0},
	{Alert: "MillraceMetricsStale", Metric: "millrace_sample_current", Op: "==", Limit: 0},
	{Alert: "MillraceViewsBehind", Metric: "millrace_projector_behind_seconds", Op: ">", Limit: 300},
	{
		Alert: "MillraceMirrorBehind", Metric: "millrace_mirror_behind_seconds", Op: ">", Limit: 300,
		Unless: &Condition{Metric: "millrace_projector_behind_seconds", Op: ">", Limit: 300},
	},
	{Alert: "MillraceSlotGroupNotFolded", Metric: "millrace_slot_group_unfolded", Op: ">", Limit: 0},
	{
		Alert: "MillraceQueueNotTaken", Metric: "millrace_queue_oldest_ready_age_seconds", Op: ">", Limit: 900,
		And: []Condition{notTaken, open},
	},
	{
		Alert: "MillraceQueueBacklog", Metric: "millrace_queue_oldest_ready_age_seconds", Op: ">", Limit: 3600,
		And: []Condition{taken, open},
	},
	{Alert: "MillraceOutboxWaiting", Metric: "millrace_outbox_oldest_age_seconds", Op: ">", Limit: 120},
	{Alert: "MillraceSchedulerLate", Metric: "millrace_scheduler_overdue_seconds", Op: ">", Limit: 120},
	{Alert: "MillraceClockWrong", Metric: "millrace_nats_clock_offset_seconds", Op: ">", Limit: 60, Abs: true},
	{Alert: "MillraceClockWrong", Metric: "millrace_postgres_clock_offset_seconds", Op: ">", Limit: 60, Abs: true},
	{Alert: "MillraceDiskLow", Metric: "millrace_disk_free_bytes", Op: "<", Limit: 0.1, Of: "millrace_disk_size_bytes"},
	{
		Alert: "MillraceDiskLow", Metric: "millrace_clickhouse_disk_free_bytes", Op: "<", Limit: 0.1,
		Of: "millrace_clickhouse_disk_size_bytes",
	},
	{Alert: "MillraceDiskFull", Metric: "millrace_disk_free_bytes", Op: "<", Limit: 0.02, Of: "millrace_disk_size_bytes"},
	{
		Alert: "MillraceDiskFull", Metric: "millrace_clickhouse_disk_free_bytes", Op: "<", Limit: 0.02,
		Of: "millrace_clickhouse_disk_size_bytes",
	},
	{Alert: "HighConsumerLag", Metric: "crawler_consumer_lag_messages", Op: ">", Limit: 100},
	{Alert: "MillraceUploadsSilent", Metric: "millrace_uploads_silent_seconds", Op: ">", Limit: 900},
	{Alert: "MillraceExportsWaiting", Metric: "millrace_uploads_export_age_seconds", Op: ">", Limit: 1800},
	{Alert: "MillraceBackupOld", Metric: "millrace_backup_age_seconds", Op: ">", Limit: 172800},
	{Alert: "MillraceRowsMissing", Metric: "millrace_projector_missing_events", Op: ">", Limit: 0},
	{Alert: "BatchErrorRateHigh", Metric: "millrace_batches_error_rate", Op: ">", Limit: 0.2},
	{Alert: "BatchSuccessRateLow", Metric: "millrace_batches_success_rate", Op: "<", Limit: 0.8},
	{Alert: "BatchRetriesNotFed", Metric: "millrace_batches_retries_overdue_seconds", Op: ">", Limit: 1800},
	{Alert: "BatchesWaiting", Metric: "millrace_batches_waiting_seconds", Op: ">", Limit: 900},
	{Alert: "MillraceStreamDamaged", Metric: "millrace_stream_damaged", Op: ">", Limit: 0},
}

// alerts returns those whose conditions hold.
func alerts(metrics map[string][]Gauge) (firing []Alert) {
	for _, c := range Conditions {
		for _, g := range metrics[c.Metric] {
			if c.holds(metrics, g) {
				firing = append(firing, Alert{c.Alert, g.String()})
			}
		}
	}
	return firing
}

// holds tells whether a condition holds of a gauge.
func (c Condition) holds(metrics map[string][]Gauge, g Gauge) bool {
	limit := c.Limit
	if c.Of != "" {
		size, ok := beside(metrics[c.Of], g)
		if !ok {
			return false
		}
		limit *= size.Value
	}
	for _, a := range c.And {
		if o, ok := beside(metrics[a.Metric], g); !ok || !a.holds(metrics, o) {
			return false
		}
	}
	if u := c.Unless; u != nil && slices.ContainsFunc(metrics[u.Metric], func(o Gauge) bool { return u.holds(metrics, o) }) {
		return false
	}
	return c.compare(g.Value, limit)
}

// beside returns the gauge with the same labels.
func beside(all []Gauge, g Gauge) (Gauge, bool) {
	i := slices.IndexFunc(all, func(o Gauge) bool { return maps.Equal(o.Labels, g.Labels) })
	if i < 0 {
		return Gauge{}, false
	}
	return all[i], true
}

func (c Condition) compare(value, limit float64) bool {
	if c.Abs {
		value = math.Abs(value)
	}
	switch c.Op {
	case "<":
		return value < limit
	case ">":
		return value > limit
	}
	return value == limit
}

// String is the gauge as Prometheus writes it.
func (g Gauge) String() string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(g.Labels)) {
		labels = append(labels, fmt.Sprintf("%s=%q", name, g.Labels[name]))
	}
	if len(labels) == 0 {
		return fmt.Sprintf("%s %g", g.Name, g.Value)
	}
	return fmt.Sprintf("%s{%s} %g", g.Name, strings.Join(labels, ","), g.Value)
}

// told are the metrics that answers have, by how their names begin.
var told = []string{
	"millrace_projector_behind", "millrace_slot_group_unfolded", "millrace_queue_", "millrace_dlq_", "millrace_outbox_",
	"millrace_mirror_behind",
}

// gauges returns the gauges of metrics by name.
func gauges(families []*dto.MetricFamily) map[string][]Gauge {
	all := map[string][]Gauge{}
	for _, f := range families {
		for _, m := range f.Metric {
			if m.Gauge == nil {
				continue
			}
			g := Gauge{Name: f.GetName(), Value: m.Gauge.GetValue()}
			for _, l := range m.Label {
				if g.Labels == nil {
					g.Labels = map[string]string{}
				}
				g.Labels[l.GetName()] = l.GetValue()
			}
			all[g.Name] = append(all[g.Name], g)
		}
	}
	return all
}

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/ingest/history"
)

// Status is the verdict on a stage.
type Status string

// What there is.
const (
	OK         Status = "OK"
	Expected   Status = "EXPECTED"
	Unexpected Status = "UNEXPECTED"
)

// Stage is a line of a report.
type Stage struct {
	Name     string   `json:"name"`
	Pipeline int64    `json:"pipeline"` // events that Millrace has counted
	Source   int64    `json:"source"`   // as the service recorded it
	Delta    int64    `json:"delta"`    // Pipeline - Source
	Status   Status   `json:"status"`
	Outages  []string `json:"outages,omitempty"` // that explain the gap, or may explain a part of it

	source *history.Source
}

// Step is a part of the plan: what to replay of a stage.
type Step struct {
	Stage  string `json:"stage"`
	Table  string `json:"table"`
	Query  string `json:"query"`            // that reads the rows
	Events int64  `json:"events,omitempty"` // that were published, by a replay
	// Conflicts are events that a replay could not publish, because events of
	// another stage or service have their keys.
	Conflicts int64 `json:"conflicts,omitempty"`
}

// Report is what a day looks like.
type Report struct {
	Date     string    `json:"date"`
	Timezone string    `json:"timezone"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Stages   []Stage   `json:"stages"`
	Plan     []Step    `json:"replay_plan"`
	Replayed bool      `json:"replayed"`

	span history.Span
	zone *time.Location
}

// Unexpected tells whether there is a gap that no outage explains.
func (r *Report) Unexpected() bool {
	for _, s := range r.Stages {
		if s.Status == Unexpected {
			return true
		}
	}
	return false
}

// Reconciler compares.
type Reconciler struct {
	events  *history.EventsTable
	sources []*history.Source
	outages []Outage
}

// New returns a reconciler of tables. It starts nothing.
func New(table *history.EventsTable, sources []*history.Source, outages []Outage) (*Reconciler, error) {
	if table == nil || len(sources) == 0 {
		return nil, errors.New("reconcile: the events table and tables of services are needed")
	}
	return &Reconciler{table, sources, outages}, nil
}

// Day compares a day, of which date is any moment, in a zone.
func (r *Reconciler) Day(ctx context.Context, date time.Time, zone *time.Location) (*Report, error) {
	y, m, d := date.In(zone).Date()
	span := history.Span{From: time.Date(y, m, d, 0, 0, 0, 0, zone), Until: time.Date(y, m, d+1, 0, 0, 0, 0, zone)}
	report := &Report{
		Date: date.In(zone).Format(time.DateOnly), Timezone: zone.String(), From: span.From.UTC(), To: span.Until.UTC(),
		Plan: []Step{}, span: span, zone: zone,
	}
	for _, src := range r.sources {
		totals, err := src.Count(ctx, span)
		if err != nil {
			return nil, fmt.Errorf("reconcile: %w", err)
		}
		for _, name := range src.Stages {
			s, err := r.stage(ctx, report, src, name, totals.Items[name])
			if err != nil {
				return nil, fmt.Errorf("reconcile: %w", err)
			}
			report.Stages = append(report.Stages, s)
			if s.Status == Unexpected && s.Delta < 0 {
				report.Plan = append(report.Plan, Step{Stage: name, Table: src.Name, Query: src.Query(name, span)})
			}
		}
	}
	return report, nil
}

func (r *Reconciler) stage(
	ctx context.Context, report *Report, src *history.Source, name string, recorded int64,
) (Stage, error) {
	n, err := r.events.Count(ctx, name, report.span)
	if err != nil {
		return Stage{}, err
	}
	s := Stage{Name: name, Pipeline: n, Source: recorded, Delta: n - recorded, Status: OK, source: src}
	if s.Delta == 0 {
		return s, nil
	}
	s.Status = Unexpected
	outages := affecting(r.outages, name, report.span)
	if len(outages) == 0 || s.Delta > 0 {
		return s, nil
	}
	for _, o := range outages {
		s.Outages = append(s.Outages, o.describe(report.span, report.zone))
	}
	explained, err := r.explained(ctx, report.span, s, outages)
	if err != nil && !errors.Is(err, history.ErrRetired) {
		return s, err
	}
	if explained {
		s.Status = Expected
	}
	return s, nil
}

// explained tells whether outages account for what is missing: invariant 1.
func (r *Reconciler) explained(ctx context.Context, span history.Span, s Stage, outages []Outage) (bool, error) {
	if s.source.Counts() {
		items, err := s.source.ItemsDuring(ctx, s.Name, span, spans(outages))
		return -s.Delta <= items, err
	}
	recorded, err := s.source.Count(ctx, span, spans(outages)...)
	if err != nil {
		return false, err
	}
	n, err := r.events.Count(ctx, s.Name, span, spans(outages)...)
	return n == recorded.Items[s.Name], err
}

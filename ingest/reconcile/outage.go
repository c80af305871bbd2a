package reconcile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/millrace-io/millrace/ingest/history"
)

// Outage is a span of time in which events of some stages are known to be
// missing.
type Outage struct {
	Name   string    `yaml:"name"`
	From   time.Time `yaml:"from"`
	Until  time.Time `yaml:"to"`
	Stages []string  `yaml:"stages"` // none: all
}

// ReadOutages reads a file of outages:
//
//	outages:
//	  - name: Redis outage
//	    from: 2026-02-10T14:20:00Z
//	    to: 2026-02-10T14:35:00Z
//	    stages: [published]
func ReadOutages(r io.Reader) ([]Outage, error) {
	var file struct {
		Outages []Outage `yaml:"outages"`
	}
	d := yaml.NewDecoder(r)
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read outages: %w", err)
	}
	for i, o := range file.Outages {
		switch {
		case strings.TrimSpace(o.Name) == "":
			return nil, fmt.Errorf("read outages: outage %d needs a name", i+1)
		case o.From.IsZero() || !o.From.Before(o.Until):
			return nil, fmt.Errorf("read outages: %s: needs a time from, and a later time to", o.Name)
		}
	}
	return file.Outages, nil
}

// affecting returns the outages of a stage within a span.
func affecting(all []Outage, stage string, span history.Span) (some []Outage) {
	for _, o := range all {
		if (len(o.Stages) == 0 || slices.Contains(o.Stages, stage)) && o.From.Before(span.Until) &&
			span.From.Before(o.Until) {
			some = append(some, o)
		}
	}
	slices.SortFunc(some, func(a, b Outage) int { return a.From.Compare(b.From) })
	return some
}

// spans are the times of outages.
func spans(outages []Outage) (all []history.Span) {
	for _, o := range outages {
		all = append(all, history.Span{From: o.From, Until: o.Until})
	}
	return all
}

// describe says when an outage was, in the zone of the report: with the date
// only where it is not the day's.
func (o Outage) describe(day history.Span, zone *time.Location) string {
	from, until := o.From.In(zone), o.Until.In(zone)
	layout := "15:04"
	if from.Before(day.From) || until.After(day.Until) {
		layout = "2006-01-02 15:04"
	}
	return fmt.Sprintf("%s %s-%s %s", o.Name, from.Format(layout), until.Format(layout), zone)
}

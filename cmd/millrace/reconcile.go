package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
	"github.com/millrace-io/millrace/ingest/reconcile"
	"github.com/millrace-io/millrace/schemas/instant"
)

type reconcileCmd struct {
	Services []string        `arg:"" optional:"" name:"service" enum:"crawler,classifier,publisher" help:"Service to compare with: crawler, classifier or publisher. Default: all whose database is named."`
	History  historySettings `embed:"" group:"Databases"`
	Counted  countedSettings `embed:"" group:"Databases"`
	NATS     natsCommand     `embed:"" group:"NATS, for --replay"`
	Date     date            `help:"The day; default yesterday." placeholder:"2026-02-10"`
	To       date            `help:"The last of several days." placeholder:"2026-02-12"`
	TZ       zone            `help:"The time zone in which a day begins." name:"tz" default:"UTC"`
	Outages  string          `help:"YAML file of known outages, which tell expected gaps from unexpected ones." env:"MILLRACE_OUTAGES" type:"path" placeholder:"FILE"`
	JSON     bool            `help:"Print JSON."`
	Replay   bool            `help:"Publish what is missing."`
}

// date is a day of the calendar.
type date struct{ time.Time }

func (d *date) UnmarshalText(text []byte) (err error) {
	d.Time, err = instant.ParseDay(string(text))
	return err
}

// in returns a moment of the day in a zone.
func (d date) in(zone *time.Location) time.Time {
	y, m, day := d.Date()
	return time.Date(y, m, day, 12, 0, 0, 0, zone)
}

type zone struct{ *time.Location }

func (z *zone) UnmarshalText(text []byte) (err error) {
	if z.Location, err = time.LoadLocation(string(text)); err != nil || string(text) == "Local" {
		return errors.New(`must be a time zone such as "UTC" or "Europe/Berlin"`)
	}
	return nil
}

// Validate makes a span that ends before it begins bad usage.
func (c *reconcileCmd) Validate() error {
	if !c.To.IsZero() && (c.Date.IsZero() || c.To.Before(c.Date.Time)) {
		return errors.New("--to: needs --date, and must not be earlier")
	}
	return nil
}

// Run reports on each day.
func (c *reconcileCmd) Run(p *program) error {
	sources, closeAll, err := c.History.open(p.ctx, c.Services)
	if err != nil {
		return err
	}
	defer closeAll()
	table, err := c.Counted.open()
	if err != nil {
		return err
	}
	defer table.Close()
	outages, err := c.outages()
	if err != nil {
		return err
	}
	r, err := reconcile.New(table, sources, outages)
	if err != nil {
		return err
	}
	first, last := c.days()
	gaps := 0
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		report, err := c.day(p, r, day)
		if err != nil {
			return err
		}
		if report.Unexpected() {
			gaps++
		}
		if !c.JSON && day.Before(last) {
			fmt.Fprintln(p.out)
		}
	}
	if gaps > 0 {
		return &statusError{errors.New("there are unexpected gaps"), statusPartial}
	}
	return nil
}

func (c *reconcileCmd) days() (first, last time.Time) {
	if first = c.Date.in(c.TZ.Location); c.Date.IsZero() {
		first = date{time.Now().In(c.TZ.Location).AddDate(0, 0, -1)}.in(c.TZ.Location)
	}
	if last = c.To.in(c.TZ.Location); c.To.IsZero() {
		last = first
	}
	return first, last
}

func (c *reconcileCmd) day(p *program, r *reconcile.Reconciler, day time.Time) (*reconcile.Report, error) {
	report, err := r.Day(p.ctx, day, c.TZ.Location)
	if err != nil {
		return nil, err
	}
	var replayErr error
	if c.Replay && len(report.Plan) > 0 {
		replayErr = c.replay(p, r, report)
	}
	if c.JSON {
		err = console.PrintJSON(p.out, report)
	} else {
		err = report.Print(p.out)
	}
	return report, errors.Join(replayErr, err)
}

func (c *reconcileCmd) replay(p *program, r *reconcile.Reconciler, report *reconcile.Report) error {
	nc, err := c.NATS.connect(p)
	if err != nil {
		return err
	}
	defer nc.Close()
	publisher, err := client.New(nc, client.Config{Log: p.log})
	if err != nil {
		return err
	}
	return r.Replay(p.ctx, report, publisher)
}

func (c *reconcileCmd) outages() ([]reconcile.Outage, error) {
	if c.Outages == "" {
		return nil, nil
	}
	f, err := os.Open(c.Outages)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return reconcile.ReadOutages(f)
}

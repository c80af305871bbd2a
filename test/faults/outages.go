package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// outage is something that stops a view or a queue for long, and the alerts that have to
// fire then. Others may fire as well.
type outage struct {
	name  string
	begin func(*outageRecorder) (end func() error, err error) // nil: nothing happens
	fires []string
	// scrapes and settles are how many scrapes are made during and after it; 0: as usual.
	scrapes, settles int
}

// skewedClock is the outage that needs clocks that can be set.
const skewedClock = "skewed-clock"

// outages are all that are recorded.
func outages() []outage {
	const (
		down, role, dependency = "MillraceDown", "MillraceRoleAway", "MillraceDependencyDown"
		behind, unfolded       = "MillraceViewsBehind", "MillraceSlotGroupNotFolded"
		stale, circuit, spool  = "MillraceMetricsStale", "PipelineCircuitOpen", "PipelineSpoolFilling"
		full                   = "MillraceDiskFull"
	)
	broker, postgres := []string{dependency, stale, circuit, spool}, []string{dependency, stale}
	return []outage{
		{name: "quiet", scrapes: 300},
		faultOf(killClickHouse, dependency, behind, unfolded),
		faultOf(stallClickHouse, dependency, behind),
		faultOf(cutClickHouse, dependency, behind, unfolded),
		faultOf(muteClickHouse, dependency, behind),
		faultOf(fullClickHouse, full), // small inserts go through now and then, so views are late only by turns
		faultOf(readOnly, behind, unfolded),
		faultOf(refuseParts, behind, unfolded),
		{name: "rows-missing", begin: rowsMissing, fires: []string{behind, unfolded}, settles: 20},
		faultOf(killNATS, broker...),
		faultOf(stallNATS, broker...),
		faultOf(cutNATS, broker...),
		faultOf(fullNATS, "MillraceServerErrors", behind, circuit),
		faultOf(killPostgres, postgres...),
		faultOf(stallPostgres, postgres...),
		faultOf(cutPostgres, postgres...),
		faultOf(mutePostgres, postgres...),
		faultOf(fullPostgres, "MillraceServerErrors"),
		{name: "kill-projectors", begin: holdAll(projectorsOf), fires: []string{down, role, behind, unfolded}},
		{name: "stall-projectors", begin: pauseAll(projectorsOf), fires: []string{down, role, behind, unfolded}},
		{
			name: "full-projectors", begin: fillProjectors, fires: []string{full}, scrapes: 30, // folding goes on for long
		},
		{name: "kill-query", begin: holdAll(queryOf), fires: []string{down, role}},
		{name: "stall-query", begin: pauseAll(queryOf), fires: []string{down, role}},
		{name: "kill-ingest", begin: holdAll(ingestsOf), fires: []string{down, role}},
		{
			name: "kill-schedulers", begin: holdAll(schedulersOf), fires: []string{down, "MillraceSchedulerLate"}, scrapes: 20,
		},
		{
			name: "stall-schedulers", begin: pauseAll(schedulersOf), fires: []string{down, "MillraceSchedulerLate"}, scrapes: 40,
		},
		faultOf(killAll, down, role),
		{name: "no-workers", begin: noWorkers, fires: []string{"MillraceQueueNotTaken"}},
		{name: "failing-items", begin: failingItems, fires: []string{"MillraceQueueDead"}},
		{name: "dead-letters", begin: deadLetters, fires: []string{"PipelineDeadLetters", "PipelineEventsRejected"}},
		{name: skewedClock, begin: skewBroker, fires: []string{"MillraceClockWrong"}, settles: 16},
	}
}

// outagesNamed returns some outages; all for "all".
func outagesNamed(list string) ([]outage, error) {
	if list == "all" {
		return outages(), nil
	}
	var some []outage
	for name := range strings.SplitSeq(list, ",") {
		found := false
		for _, o := range outages() {
			if o.name == name {
				some, found = append(some, o), true
			}
		}
		if !found {
			return nil, fmt.Errorf("-outages: there is no outage %q", name)
		}
	}
	return some, nil
}

// faultOf is a kind of fault that stays.
func faultOf(k kind, fires ...string) outage {
	return outage{name: string(k), fires: fires, begin: func(r *outageRecorder) (func() error, error) {
		return r.sab.inject(fault{kind: k, seed: 1})
	}}
}

func projectorsOf(c *cluster) []*process { return c.projectors[:2] }
func schedulersOf(c *cluster) []*process { return c.schedulers }
func ingestsOf(c *cluster) []*process    { return []*process{c.ingest, c.otherIngest} }
func queryOf(c *cluster) []*process      { return []*process{c.query} }

// holdAll kills processes and keeps them down.
func holdAll(of func(*cluster) []*process) func(*outageRecorder) (func() error, error) {
	return func(r *outageRecorder) (func() error, error) { return kill(of(r.cluster)...), nil }
}

// pauseAll stops processes, whose ports stay open.
func pauseAll(of func(*cluster) []*process) func(*outageRecorder) (func() error, error) {
	return func(r *outageRecorder) (func() error, error) {
		var ends []func() error
		for _, p := range of(r.cluster) {
			ends = append(ends, p.pause())
		}
		return func() error {
			var errs []error
			for _, end := range ends {
				errs = append(errs, end())
			}
			return errors.Join(errs...)
		}, nil
	}
}

// fillProjectors fills the disks of all projectors' key stores.
func fillProjectors(r *outageRecorder) (func() error, error) {
	var ends []func() error
	for _, p := range projectorsOf(r.cluster) {
		if p.disk == nil {
			return nil, errNoDisks
		}
		end, err := p.disk.fill(0)
		if err != nil {
			return nil, err
		}
		ends = append(ends, end)
	}
	return func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}, nil
}

// rowsMissing takes the rows of events away, and the key stores that would not need them, so
// that the slot group refuses to fold.
func rowsMissing(r *outageRecorder) (func() error, error) {
	db := database{r.cluster.chHTTP}
	all := func(statements ...string) error {
		ctx, cancel := context.WithTimeout(context.Background(), recoveryLimit)
		defer cancel()
		for _, sql := range statements {
			if err := db.exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range projectorsOf(r.cluster) {
		p.hold(syscall.SIGTERM, stopGrace)
		defer p.release()
		if err := r.cluster.dropKeys(p); err != nil {
			return nil, err
		}
	}
	return func() error { return all("DROP TABLE events", "RENAME TABLE events_kept TO events") },
		all("RENAME TABLE events TO events_kept", "CREATE TABLE events AS events_kept")
}

func noWorkers(r *outageRecorder) (func() error, error) {
	r.load.idle.Store(true)
	return func() error { r.load.idle.Store(false); return nil }, nil
}

func failingItems(r *outageRecorder) (func() error, error) {
	r.load.failing.Store(true)
	return func() error { r.load.failing.Store(false); return nil }, nil
}

func deadLetters(r *outageRecorder) (func() error, error) {
	r.load.broken.Store(true)
	return func() error { r.load.broken.Store(false); return nil }, nil
}

// skewBroker sets the clock of NATS ahead.
func skewBroker(r *outageRecorder) (func() error, error) {
	if r.cluster.nats.clock == nil {
		return nil, errNoClocks
	}
	err := r.cluster.nats.clock.step(2 * time.Hour)
	return func() error { return r.cluster.nats.clock.step(0) }, err
}

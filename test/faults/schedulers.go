package main

import (
	"errors"
	"slices"
)

// Faults of what the jobs need.
const (
	killScheduler  kind = "kill-scheduler"
	killSchedulers kind = "kill-schedulers"
	stallScheduler kind = "stall-scheduler"
	cutScheduler   kind = "cut-scheduler"
	muteScheduler  kind = "mute-scheduler"
	killFollowers  kind = "kill-followers"
	killCrawlers   kind = "kill-crawlers"
)

// ofJobsArea has them.
var ofJobsArea = area{"Schedulers and jobs", []entry{
	{killScheduler, "kill -9 of one of the two schedulers"},
	{killSchedulers, "kill -9 of both"},
	{stallScheduler, "SIGSTOP of one, in the middle of whatever it decides"},
	{cutScheduler, "one is cut off from Postgres"},
	{muteScheduler, "Postgres does what one asks, and the answers are lost"},
	{killFollowers, "kill -9 of the processes that have jobs follow their sources"},
	{killCrawlers, "all workers of the queue of crawls vanish with what they have"},
}}

// ofJobs tells from which faults the work of jobs has to recover by itself.
func ofJobs(k kind) bool { return k == failJobs || slices.Contains(ofJobsArea.names(), k) }

// disturbJobs begins a fault of what the jobs need.
func (s *saboteur) disturbJobs(f fault) (end func() error, err error) {
	c := s.cluster
	if ofSystems(f.kind) {
		return s.failSystem(f.kind)
	}
	if f.kind == badAnalyser && s.batches != nil {
		return s.batches.analyser.begin(), nil
	}
	if ofBatches(f.kind) && s.batches != nil {
		return s.batches.objects.begin(f.kind), nil
	}
	if f.kind == killExporter {
		return s.killExporter()
	}
	if len(c.schedulers) == 0 {
		return nil, errors.New("there are no schedulers")
	}
	one := c.schedulers[f.seed%uint64(len(c.schedulers))]
	switch f.kind {
	case killScheduler:
		return kill(one), nil
	case killSchedulers:
		return kill(c.schedulers...), nil
	case stallScheduler:
		return one.pause(), nil
	case cutScheduler:
		return one.links.postgres.cut()
	case muteScheduler:
		return one.links.postgres.mute()
	case killFollowers:
		return kill(c.ingest, c.otherIngest), nil
	case killCrawlers:
		return s.crawls.kill(), nil
	}
	return nil, errors.New("no such fault")
}

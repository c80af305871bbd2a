package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is a kind of fault.
type kind string

// What each kind does is in the catalogue.
const (
	killLeader         kind = "kill-leader"
	killStandby        kind = "kill-standby"
	killQuery          kind = "kill-query"
	killIngest         kind = "kill-ingest"
	killClickHouse     kind = "kill-clickhouse"
	stuckClickHouse    kind = "stuck-clickhouse"
	killNATS           kind = "kill-nats"
	killPostgres       kind = "kill-postgres"
	killAll            kind = "kill-all"
	stallLeader        kind = "stall-leader"
	stallClickHouse    kind = "stall-clickhouse"
	zombieInsert       kind = "zombie-insert"
	stallNATS          kind = "stall-nats"
	cutClickHouse      kind = "cut-clickhouse"
	cutNATS            kind = "cut-nats"
	muteClickHouse     kind = "mute-clickhouse"
	muteNATS           kind = "mute-nats"
	delayClickHouse    kind = "delay-clickhouse"
	delayNATS          kind = "delay-nats"
	throttleClickHouse kind = "throttle-clickhouse"
	throttleNATS       kind = "throttle-nats"
	tearClickHouse     kind = "tear-clickhouse"
	tearNATS           kind = "tear-nats"
	resetClickHouse    kind = "reset-clickhouse"
	resetNATS          kind = "reset-nats"

	cutLeaderNATS         kind = "cut-leader-nats"
	muteLeaderNATS        kind = "mute-leader-nats"
	cutLeaderClickHouse   kind = "cut-leader-clickhouse"
	muteLeaderClickHouse  kind = "mute-leader-clickhouse"
	delayLeaderClickHouse kind = "delay-leader-clickhouse"
	lateInsert            kind = "late-insert"

	refuseParts    kind = "refuse-parts"
	readOnly       kind = "read-only"
	fullClickHouse kind = "full-clickhouse"
	fullNATS       kind = "full-nats"
	fullKeys       kind = "full-keys"

	unplugAll        kind = "unplug-all"
	unplugNATS       kind = "unplug-nats"
	unplugClickHouse kind = "unplug-clickhouse"
	unplugLeader     kind = "unplug-leader"

	killNode      kind = "kill-node"
	stallNode     kind = "stall-node"
	partitionNode kind = "partition-node"
	unplugNode    kind = "unplug-node"

	loseKeys     kind = "lose-keys"
	rotKeys      kind = "rot-keys"
	newProjector kind = "new-projector"
	rolling      kind = "rolling"
	rebalance    kind = "rebalance"
	regroup      kind = "regroup"
	killRegroup  kind = "kill-regroup"

	jumpClock  kind = "jump-clock"
	skewClocks kind = "skew-clocks"
)

// suits tells which kinds are for so many NATS servers and slot groups.
func suits(k kind, c config) bool {
	switch k {
	case killNode, stallNode, partitionNode, unplugNode:
		return c.nodes > 1
	case killNATS, stallNATS, fullNATS, unplugNATS:
		return c.nodes == 1
	case rebalance:
		return c.groups > 1
	default:
		return true
	}
}

// needsDisk tells which kinds need disks of their own.
func needsDisk(k kind) bool {
	switch k {
	case fullClickHouse, fullNATS, fullKeys, unplugAll, unplugNATS, unplugClickHouse, unplugLeader, unplugNode,
		fullPostgres, unplugPostgres:
		return true
	default:
		return false
	}
}

// needsClocks tells which kinds need processes to have clocks of their own.
func needsClocks(k kind) bool { return k == jumpClock || k == skewClocks }

func kindNames() string { return join(allKinds(), ", ") }

func join(kinds []kind, between string) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, between)
}

// planFlags are those that decide the plan, beside the seed.
func (c config) planFlags() (flags string) {
	if c.named {
		flags = " -faults " + join(c.kinds, ",")
	}
	if c.overlap {
		flags += " -overlap"
	}
	if c.work > 0 {
		flags += fmt.Sprint(" -work ", c.work)
	}
	if c.uploadRows > 0 {
		flags += fmt.Sprint(" -upload-rows ", c.uploadRows)
	}
	return flags
}

func parseKinds(list string) ([]kind, error) {
	switch list {
	case "all":
		return allKinds(), nil
	case "none":
		return nil, nil
	}
	var kinds []kind
	for name := range strings.SplitSeq(list, ",") {
		k := kind(strings.TrimSpace(name))
		if !slices.Contains(everyKind(), k) {
			return nil, fmt.Errorf("-faults: there is no kind %q, but %s", name, kindNames())
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// fault is a step of the plan.
type fault struct {
	kind   kind
	after  time.Duration // since the step before, when that is over
	lasts  time.Duration // how long what is killed stays down, or what is stopped stays so
	joined bool          // the next step does not wait for this one
	seed   uint64        // of what else is random
}

// plan makes faults from a seed: first each kind once, in random order, then
// any.
type plan struct {
	random  *rand.Rand
	kinds   []kind
	left    []kind // of the present round
	rounds  int
	overlap bool // also in the first round
}

func newPlan(seed uint64, kinds []kind) *plan {
	return &plan{random: rand.New(rand.NewPCG(seed, 2)), kinds: kinds}
}

func (p *plan) next() fault {
	if len(p.left) == 0 {
		p.left = slices.Clone(p.kinds)
		p.random.Shuffle(len(p.left), func(i, j int) { p.left[i], p.left[j] = p.left[j], p.left[i] })
		p.rounds++
	}
	f := fault{
		kind: p.left[0], after: time.Duration(200+p.random.IntN(1800)) * time.Millisecond,
		lasts: time.Duration(p.random.IntN(2500)) * time.Millisecond,
		// The first round shows what each kind does alone, unless it is not to.
		joined: p.random.IntN(3) == 0 && (p.rounds > 1 || p.overlap),
	}
	if p.random.IntN(4) == 0 {
		f.lasts = lease + time.Duration(p.random.IntN(3000))*time.Millisecond
	}
	f.seed = p.random.Uint64()
	switch f.kind {
	case killLeader, killStandby, killQuery, killIngest, killClickHouse, killNATS, killPostgres, cutClickHouse, cutNATS,
		cutPostgres, cutLeaderNATS, cutLeaderClickHouse, killRelay, regroup, killScheduler, killSchedulers, cutScheduler,
		killFollowers, killCrawlers, badAnalyser:
	default:
		f.joined = false // what is stopped obeys no SIGTERM, and what is full or slow ends no other fault in time
	}
	if f.kind == stallScheduler && f.seed%2 == 0 {
		f.lasts += lease
	}
	if f.kind == stallLeader || f.kind == stallRelay || f.kind == lateInsert || f.kind == badAnalyser {
		f.lasts = lease + time.Duration(1000+p.random.IntN(3000))*time.Millisecond
	}
	p.left = p.left[1:]
	return f
}

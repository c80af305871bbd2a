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

const (
	killLeader         kind = "kill-leader"         // kill -9 of the projector that folds
	killStandby        kind = "kill-standby"        // … of the one that stands by
	killQuery          kind = "kill-query"          // … of query
	killIngest         kind = "kill-ingest"         // … of ingest
	killClickHouse     kind = "kill-clickhouse"     // … of ClickHouse
	killNATS           kind = "kill-nats"           // … of NATS
	killPostgres       kind = "kill-postgres"       // … of Postgres
	killAll            kind = "kill-all"            // … of everything at once
	stallLeader        kind = "stall-leader"        // SIGSTOP of the leader beyond its lease, and on again
	stallClickHouse    kind = "stall-clickhouse"    // … of ClickHouse
	zombieInsert       kind = "zombie-insert"       // a projector is killed or stopped, and the rows of its insert arrive after its successor's
	stallNATS          kind = "stall-nats"          // … of NATS
	cutClickHouse      kind = "cut-clickhouse"      // connections to ClickHouse are reset, and none is made for a while
	cutNATS            kind = "cut-nats"            // … to NATS
	muteClickHouse     kind = "mute-clickhouse"     // ClickHouse does what it is asked, and the answers are lost
	muteNATS           kind = "mute-nats"           // NATS does
	delayClickHouse    kind = "delay-clickhouse"    // what is said to ClickHouse and back takes long
	delayNATS          kind = "delay-nats"          // … to NATS
	throttleClickHouse kind = "throttle-clickhouse" // little goes through to ClickHouse and back
	throttleNATS       kind = "throttle-nats"       // … to NATS
	tearClickHouse     kind = "tear-clickhouse"     // each connection to ClickHouse ends in the middle of an insert
	tearNATS           kind = "tear-nats"           // … to NATS in the middle of a message
	resetClickHouse    kind = "reset-clickhouse"    // each connection to ClickHouse is reset soon after it is used
	resetNATS          kind = "reset-nats"          // … to NATS

	cutLeaderNATS         kind = "cut-leader-nats"         // the projector that folds is cut off from NATS, and from nothing else
	muteLeaderNATS        kind = "mute-leader-nats"        // … NATS does what it asks, and the answers are lost
	cutLeaderClickHouse   kind = "cut-leader-clickhouse"   // … it is cut off from ClickHouse, and from nothing else
	muteLeaderClickHouse  kind = "mute-leader-clickhouse"  // … ClickHouse does what it asks, and the answers are lost
	delayLeaderClickHouse kind = "delay-leader-clickhouse" // … what it says to ClickHouse and back takes long
	lateInsert            kind = "late-insert"             // … that takes long, and it is cut off from NATS: its rows land beside its successor's

	refuseParts    kind = "refuse-parts"    // ClickHouse refuses inserts: too many parts
	readOnly       kind = "read-only"       // … the tables are read-only
	fullClickHouse kind = "full-clickhouse" // … its disk is full
	fullNATS       kind = "full-nats"       // the disk of NATS is full
	fullKeys       kind = "full-keys"       // the disk of the leader's key store is full

	unplugAll        kind = "unplug-all"        // the machine loses power: all is killed, and what is not synced is gone
	unplugNATS       kind = "unplug-nats"       // … that of NATS
	unplugClickHouse kind = "unplug-clickhouse" // … that of ClickHouse
	unplugLeader     kind = "unplug-leader"     // … that of the projector that folds

	killNode      kind = "kill-node"      // kill -9 of one of three NATS servers: of the stream's leader, or any
	stallNode     kind = "stall-node"     // SIGSTOP of the stream's leader among them, and on again
	partitionNode kind = "partition-node" // … the others and it do not reach each other
	unplugNode    kind = "unplug-node"    // … its machine loses power, with what it has not synced

	loseKeys     kind = "lose-keys"     // the leader's key store is deleted while it is down
	rotKeys      kind = "rot-keys"      // … is overwritten here and there
	newProjector kind = "new-projector" // a third projector, with an empty folder
	rolling      kind = "rolling"       // SIGTERM and restart of one role after the other
	rebalance    kind = "rebalance"     // from one projector to four and back
	regroup      kind = "regroup"       // another number of slot groups
	killRegroup  kind = "kill-regroup"  // … and kill -9 of one part or several meanwhile

	jumpClock  kind = "jump-clock"  // the clock of one process jumps, and back or not
	skewClocks kind = "skew-clocks" // the clocks of all do, each by an amount of its own
)

func allKinds() []kind {
	return append([]kind{
		killLeader, killStandby, killQuery, killIngest, killClickHouse, killNATS, killPostgres, killAll,
		stallLeader, stallClickHouse, zombieInsert, stallNATS,
		cutClickHouse, cutNATS, muteClickHouse, muteNATS, delayClickHouse, delayNATS, throttleClickHouse, throttleNATS,
		tearClickHouse, tearNATS, resetClickHouse, resetNATS,
		cutLeaderNATS, muteLeaderNATS, cutLeaderClickHouse, muteLeaderClickHouse, delayLeaderClickHouse, lateInsert,
		refuseParts, readOnly, fullClickHouse, fullNATS, fullKeys,
		unplugAll, unplugNATS, unplugClickHouse, unplugLeader,
		killNode, stallNode, partitionNode, unplugNode,
		loseKeys, rotKeys, newProjector, rolling, rebalance, regroup, killRegroup, jumpClock, skewClocks,
	}, shardKinds()...)
}

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
	case fullClickHouse, fullNATS, fullKeys, unplugAll, unplugNATS, unplugClickHouse, unplugLeader, unplugNode, fullPostgres, unplugPostgres:
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
		if !slices.Contains(append(allKinds(), killUnacked), k) {
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
	case killLeader, killStandby, killQuery, killIngest, killClickHouse, killNATS, killPostgres, cutClickHouse, cutNATS, cutPostgres,
		cutLeaderNATS, cutLeaderClickHouse, killRelay, regroup:
	default:
		f.joined = false // what is stopped obeys no SIGTERM, and what is full or slow ends no other fault in time
	}
	if f.kind == stallLeader || f.kind == stallRelay || f.kind == lateInsert {
		f.lasts = lease + time.Duration(1000+p.random.IntN(3000))*time.Millisecond
	}
	p.left = p.left[1:]
	return f
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// entry is a kind of fault and what it does.
type entry struct {
	kind kind
	does string
}

// area is a group of kinds in the catalogue.
type area struct {
	title string
	kinds []entry
}

// catalogue is the registry of all kinds, and docs/faults.md is made from it.
// Its order decides what a seed plans: add a kind at the end of its area, and
// expect other plans from the same seeds.
var catalogue = []area{
	{"Processes that die", []entry{
		{killLeader, "kill -9 of the projector that folds"},
		{killStandby, "kill -9 of the projector that stands by"},
		{killQuery, "kill -9 of query"},
		{killIngest, "kill -9 of ingest"},
		{killClickHouse, "kill -9 of ClickHouse"},
		{killNATS, "kill -9 of NATS"},
		{killPostgres, "kill -9 of Postgres"},
		{killAll, "kill -9 of everything at once"},
	}},
	{"Stalled processes", []entry{
		{stallLeader, "SIGSTOP of the projector that folds, for longer than its lease"},
		{stallClickHouse, "SIGSTOP of ClickHouse"},
		{zombieInsert, "a projector is killed or stopped, and the rows of its insert arrive after its successor's"},
		{stallNATS, "SIGSTOP of NATS"},
	}},
	{"Connections to ClickHouse and NATS", []entry{
		{cutClickHouse, "connections to ClickHouse are reset, and none can be made for a while"},
		{cutNATS, "the same to NATS"},
		{muteClickHouse, "ClickHouse does what it is asked, and its answers are lost"},
		{muteNATS, "the same with NATS"},
		{delayClickHouse, "every byte to and from ClickHouse is delayed"},
		{delayNATS, "the same with NATS"},
		{throttleClickHouse, "few bytes a second pass to and from ClickHouse"},
		{throttleNATS, "the same with NATS"},
		{tearClickHouse, "each connection to ClickHouse ends in the middle of an insert"},
		{tearNATS, "each connection to NATS ends in the middle of a message"},
		{resetClickHouse, "each connection to ClickHouse is reset soon after it is used"},
		{resetNATS, "the same with NATS"},
	}},
	{"Connections of the projector that folds alone", []entry{
		{cutLeaderNATS, "it is cut off from NATS"},
		{muteLeaderNATS, "NATS does what it asks, and the answers are lost"},
		{cutLeaderClickHouse, "it is cut off from ClickHouse"},
		{muteLeaderClickHouse, "ClickHouse does what it asks, and the answers are lost"},
		{delayLeaderClickHouse, "every byte between it and ClickHouse is delayed"},
		{lateInsert, "it is cut off from NATS while its rows are delayed, so that they land beside its successor's"},
	}},
	{"Refusals and full disks", []entry{
		{refuseParts, "ClickHouse refuses inserts because of too many parts"},
		{readOnly, "ClickHouse's tables are read-only"},
		{fullClickHouse, "the disk of ClickHouse is full"},
		{fullNATS, "the disk of NATS is full"},
		{fullKeys, "the disk of the folding projector's key store is full"},
	}},
	{"Power cuts", []entry{
		{unplugAll, "the machine loses power: everything is killed, and what was not synced is gone"},
		{unplugNATS, "the same for NATS alone"},
		{unplugClickHouse, "the same for ClickHouse alone"},
		{unplugLeader, "the same for the projector that folds"},
	}},
	{"One of three NATS servers", []entry{
		{killNode, "kill -9 of the stream's leader, or of any"},
		{stallNode, "SIGSTOP of the stream's leader"},
		{partitionNode, "the stream's leader and the others cannot reach each other"},
		{unplugNode, "the stream's leader, or any, loses power with what it has not synced"},
	}},
	{"Projectors and their stores", []entry{
		{loseKeys, "the folding projector's key store is deleted while it is down"},
		{rotKeys, "that store is overwritten in places, cut, exchanged, or older in part"},
		{newProjector, "a third projector with an empty folder starts, and the folding one is killed"},
		{rolling, "SIGTERM and restart of one role after the other"},
		{rebalance, "from one projector to four and back"},
		{regroup, "another number of slot groups"},
		{killRegroup, "the same, with kill -9 of one part or several meanwhile"},
	}},
	{"Clocks", []entry{
		{jumpClock, "the clock of one process jumps, and back or not"},
		{skewClocks, "the clocks of all processes jump, each by another amount"},
	}},
	ofShardsArea,
	ofJobsArea,
	ofBatchesArea,
	ofSystemsArea,
	ofUploadsArea,
}

// ofShardsArea has the faults of what the shards' work needs.
var ofShardsArea = area{"Postgres and the work queues", []entry{
	{stallPostgres, "SIGSTOP of Postgres"},
	{cutPostgres, "connections to Postgres are reset, and none can be made for a while"},
	{mutePostgres, "Postgres does what it is asked, and its answers are lost"},
	{delayPostgres, "every byte to and from Postgres is delayed"},
	{throttlePostgres, "few bytes a second pass to and from Postgres"},
	{tearPostgres, "each connection to Postgres ends in the middle of a statement"},
	{resetPostgres, "each connection to Postgres is reset soon after it is used"},
	{fullPostgres, "the disk of Postgres is full"},
	{unplugPostgres, "Postgres loses power with what it has not synced"},
	{killRelay, "kill -9 of the process that publishes to the work queues"},
	{stallRelay, "SIGSTOP of that process, for longer than it may lead"},
}}

// onlyNamed has the kinds that are part of no plan unless -faults names them.
var onlyNamed = area{"Only when named", []entry{
	{killUnacked, "kill -9 of a consumer between its insert and its acknowledgement"},
	{stuckClickHouse, "an analyst's statement that ClickHouse cannot end, so that it ends itself"},
}}

func (a area) names() (kinds []kind) {
	for _, e := range a.kinds {
		kinds = append(kinds, e.kind)
	}
	return kinds
}

// allKinds are those of which a plan is made.
func allKinds() (kinds []kind) {
	for _, a := range catalogue {
		kinds = append(kinds, a.names()...)
	}
	return kinds
}

// everyKind has those that have to be named, too.
func everyKind() []kind { return append(allKinds(), onlyNamed.names()...) }

const cataloguePreface = `# Faults

<!-- Generated from the registry of test/faults by "make docs". -->

` + "`make faults`" + ` breaks an installation of separate processes by %d kinds of faults, at random, and then compares every view with
a plain recount. First each kind acts once, in random order; from then on they also overlap. %d more kinds act only when named.
Nothing that was acknowledged may be lost or counted twice. [Fault runs](fault-runs.md) has results.

` + "```sh" + `
make faults FOR=4m SEED=904
make faults FOR=100s SEED=905 ARGS="-nodes 3"
make faults ARGS="-faults kill-nats,unplug-all -groups 4"
` + "```" + `

` + "`make upgrade`" + ` begins with the program of an earlier commit, ` + "`FROM`" + `. After a quarter of the time each role goes on with
the present program, one after the other in random order, and the faults begin when all have.

With ` + "`-work N`" + `, daemons in Go, in Node with a stock NATS client, and over HTTP work N items of a user-defined queue, and
shards of files, in processes that are killed with items in hand. Nothing else is compared, and only NATS, ingest, Postgres,
and everything at once are killed unless ` + "`-faults`" + ` names other kinds.

A seed decides the history that is published and the plan of faults. ` + "`-peer plain`" + ` (or ` + "`replacing`, `bento`" + `) lets the same
plan act on what is used in place of Millrace's projectors. [` + "`test/faults/doc.go`" + `](../test/faults/doc.go) says how the harness
works.

*Needs* says which kinds need a disk of their own (an ext4 file system in memory, which takes root), a clock of their own
(Linux on amd64), or another shape of the installation. *Peers* says which kinds can act on a peer.
`

// printCatalogue writes the catalogue as Markdown.
func printCatalogue(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, cataloguePreface, len(allKinds()), len(onlyNamed.kinds))
	for _, a := range append(slices.Clone(catalogue), onlyNamed) {
		fmt.Fprintf(&b, "\n## %s\n\n| fault | what happens | needs | peers |\n|---|---|---|---|\n", a.title)
		for _, e := range a.kinds {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.kind, e.does, strings.Join(needs(e.kind), ", "),
				onPeers(e.kind))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// needs lists what a kind needs beside an installation of one NATS server and
// one slot group.
func needs(k kind) (all []string) {
	if !suits(k, config{nodes: 1, groups: 4}) {
		all = append(all, "three NATS servers")
	}
	if !suits(k, config{nodes: 3, groups: 4}) {
		all = append(all, "one NATS server")
	}
	if suits(k, config{nodes: 1, groups: 4}) && !suits(k, config{nodes: 1, groups: 1}) {
		all = append(all, "several slot groups")
	}
	if needsDisk(k) {
		all = append(all, "a disk")
	}
	if needsClocks(k) {
		all = append(all, "a clock")
	}
	return all
}

func onPeers(k kind) string {
	switch {
	case !noPeer.suits(k):
		return "only"
	case plainPeer.suits(k):
		return "yes"
	}
	return ""
}
